//! A run that is saved and loaded goes on with the same bits: parameters, the state of the optimiser with its counts,
//! and keys.

use super::Folder;
use tapeloom::files;
use tapeloom::prelude::*;
use tapeloom::tree::Leaf;

type Optim = (optim::ClipByGlobalNorm, optim::Accumulate<optim::Adam>);

#[derive(Tree, Clone)]
struct Run<T: Leaf> {
    w: Vec<T>,
    state: optim::Saved<Optim, Vec<Var>, T>,
    seen: optim::Saved<optim::Sgd, Var, T>,
    running: nn::Running<T>,
    key: T,
}

fn optimiser() -> Optim {
    // The learning rate depends on the number of steps, so a resumed run must restore this number.
    let rate = optim::cosine_decay(0.05, 15).warm_up(3);
    (optim::clip_by_global_norm(1.0), optim::accumulate(2, optim::adam(rate)))
}

fn start(seed: Var) -> Run<Var> {
    let keys: [Var; 3] = random::split(random::key(seed));
    let w: Vec<Var> =
        (keys[..2].iter()).map(|key| random::normal(*key, [3, 3], Dtype::F32)).collect();
    let state = optimiser().init(&w);
    let seen = optim::sgd(0.1).momentum(0.9).init(&w[0]);
    Run { w, state, seen, running: nn::Running::new(3, Dtype::F32), key: keys[2] }
}

fn step(run: Run<Var>) -> Run<Var> {
    let [key, next]: [Var; 2] = random::split(run.key);
    let x = random::normal(key, [4, 3], Dtype::F32);
    let norm = nn::BatchNorm::new(-1);
    let loss = |w: Vec<Var>| {
        let (h, running) = norm.train(x.dot(w[0]), &run.running);
        ((h.tanh().dot(w[1]) - x).square().mean(), running)
    };
    let ((_, running), gradient) = value_and_grad_aux(loss)(run.w.clone());
    let (w, state) = optimiser().step(&gradient, &run.state, &run.w);
    let (_, seen) = optim::sgd(0.1).momentum(0.9).update(&gradient[0], &run.seen, &w[0]);
    Run { w, state, seen, running, key: next }
}

#[test]
fn a_resumed_run_has_the_same_bits() {
    let folder = Folder::new();
    let step = jit(step);
    let begin = || run(start, 7i64).unwrap();
    let steps = |mut run: Run<Tensor>, n: usize| {
        for _ in 0..n {
            run = step.call(&run).unwrap();
        }
        run
    };
    let whole = steps(begin(), 20);
    let half = steps(begin(), 10);
    files::save_safetensors(folder.file("run"), &half).unwrap();
    files::save_npz(folder.file("run.npz"), &half).unwrap();
    // The run must contain more than floats, so that the test covers other dtypes: counts of steps, and the integers of
    // the key.
    let dtypes: Vec<Dtype> = tree_leaves(&half).iter().map(Tensor::dtype).collect();
    assert!(dtypes.contains(&Dtype::I64) && dtypes.contains(&Dtype::F32), "{dtypes:?}");
    // A process that resumes the run has only shapes and dtypes, not the arrays.
    let types = eval_shape(start, 0i64).unwrap();
    let resumed = [
        files::load_safetensors(folder.file("run"), &types).unwrap(),
        files::load_npz(folder.file("run.npz"), &begin()).unwrap(),
    ];
    for resumed in resumed {
        let resumed = steps(resumed, 10);
        assert_eq!(tree_leaves(&resumed), tree_leaves(&whole));
    }
    assert_ne!(tree_leaves(&half), tree_leaves(&whole));
}

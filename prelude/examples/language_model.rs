//! A language model of characters learns the text of this program's licence and continues it. The run is saved in
//! checkpoints, from which it is resumed with the same bits.
//!
//! ```text
//! cargo run --release --features safetensors --example language_model -- [OPTIONS]
//!
//!   --steps N          steps of the whole run (400)
//!   --checkpoint FILE  save the run there every 20 steps, and at the end
//!   --every N          save it every N steps instead
//!   --resume           go on from the checkpoint if the file exists
//!   --svg FILE         plot the losses
//! ```
//!
//! A checkpoint is the tree `Run`, which has the parameters, the state of the optimiser, the random key, and the losses
//! so far. The state of the optimiser has counts of steps, from which the schedule is computed. Nothing else changes
//! from step to step.

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use std::error::Error;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tapeloom::{files, prelude::*, tree::Leaf};

/// The training data: a text that is available wherever this program is compiled.
const TEXT: &str = include_str!("../LICENSE-APACHE");

/// The length of a sequence, the number of sequences in a batch, the length of a character's vector, and the number of
/// attention heads.
const CONTEXT: usize = 32;
const BATCH: usize = 16;
const WIDTH: usize = 32;
const HEADS: usize = 4;

#[derive(Tree, Clone)]
struct Block<T> {
    qkv: T,
    out: T,
    up: T,
    down: T,
}

#[derive(Tree, Clone)]
struct Model<T> {
    embedding: T,
    positions: T,
    blocks: Vec<Block<T>>,
}

type Optimiser = (optim::ClipByGlobalNorm, optim::Adam);

/// Everything that changes from step to step: the content of a checkpoint.
#[derive(Tree, Clone)]
pub(crate) struct Run<T: Leaf> {
    model: Model<T>,
    state: optim::Saved<Optimiser, Model<Var>, T>,
    key: T,
    /// The number of steps that are done.
    pub(crate) step: T,
    /// The loss of each step of the whole run; 0 for steps that are not done.
    losses: T,
}

/// The options of the command line.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) steps: usize,
    pub(crate) blocks: usize,
    pub(crate) checkpoint: Option<PathBuf>,
    pub(crate) every: usize,
    pub(crate) resume: bool,
    pub(crate) svg: Option<PathBuf>,
}

impl Options {
    fn of(mut args: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
        let mut options = Options {
            steps: 400,
            blocks: 2,
            checkpoint: None,
            every: 20,
            resume: false,
            svg: None,
        };
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or(format!("`{name}` needs a value"));
            match name.as_str() {
                "--steps" => options.steps = value()?.parse()?,
                "--checkpoint" => options.checkpoint = Some(value()?.into()),
                "--every" => options.every = value()?.parse()?,
                "--resume" => options.resume = true,
                "--svg" => options.svg = Some(value()?.into()),
                _ => return Err(format!("no option `{name}`").into()),
            }
        }
        Ok(options)
    }

    /// Returns AdamW with clipped gradients, and a rate that first rises and then falls to the end of the run.
    fn optimiser(&self) -> Optimiser {
        let rate = optim::cosine_decay(0.01, self.steps as u64).warm_up(20);
        (optim::clip_by_global_norm(1.0), optim::adamw(rate, 1e-3))
    }

    /// Returns a run before its first step.
    fn start(&self, characters: usize) -> Run<Var> {
        let [key, embedding, positions]: [Var; 3] = random::split(random::key(1));
        let array = |key: Var, shape: [usize; 2]| nn::lecun_normal(key, shape, Dtype::F32);
        let blocks = (0..self.blocks as u64).map(|i| {
            let keys: [Var; 4] = random::split(random::fold_in(key, i as i64));
            Block {
                qkv: array(keys[0], [WIDTH, 3 * WIDTH]),
                out: array(keys[1], [WIDTH, WIDTH]),
                up: array(keys[2], [WIDTH, 4 * WIDTH]),
                down: array(keys[3], [4 * WIDTH, WIDTH]),
            }
        });
        let model = Model {
            embedding: 0.3 * random::normal(embedding, [characters, WIDTH], Dtype::F32),
            positions: 0.1 * random::normal(positions, [CONTEXT, WIDTH], Dtype::F32),
            blocks: blocks.collect(),
        };
        Run {
            state: self.optimiser().init(&model),
            model,
            key: random::fold_in(key, -1),
            step: zeros([], Dtype::I64),
            losses: zeros([self.steps], Dtype::F32),
        }
    }

    /// Returns the run after one more step, on random sequences of the text.
    fn step(&self, run: Run<Var>, text: Var) -> Run<Var> {
        let [key, next]: [Var; 2] = random::split(run.key);
        let last = (text.len() - CONTEXT) as i64;
        let starts = random::randint(key, [BATCH], 0, last, Dtype::I64);
        let sequences = text.take(starts.expand_dims(1) + arange(CONTEXT + 1, Dtype::I64), 0);
        let loss = |model: Model<Var>| {
            let one = |s: Var| {
                let next = s.slice_axis(0, 1..);
                scores(&model, s.slice_axis(0, ..CONTEXT)).cross_entropy(next)
            };
            vmap(one)(sequences).mean()
        };
        let (loss, gradient) = value_and_grad(loss)(run.model.clone());
        let (model, state) = self.optimiser().step(&gradient, &run.state, &run.model);
        let losses = run.losses.at(run.step).set(loss);
        Run { model, state, key: next, step: run.step + 1, losses }
    }
}

/// Returns the scores of the next character at each position of a sequence.
fn scores(model: &Model<Var>, sequence: Var) -> Var {
    let mut x = model.embedding.take(sequence, 0) + model.positions;
    for b in &model.blocks {
        let qkv = x.layer_norm(-1, 1e-5).dot(b.qkv).reshape([CONTEXT, 3, HEADS, WIDTH / HEADS]);
        let [q, k, v] = [0, 1, 2].map(|i| qkv.index_axis(1, i));
        let seen = dot_product_attention(q, k, v, Attention::new().causal());
        x += seen.reshape([CONTEXT, WIDTH]).dot(b.out);
        x += x.layer_norm(-1, 1e-5).dot(b.up).gelu_tanh().dot(b.down);
    }
    x.layer_norm(-1, 1e-5).dot(model.embedding.t())
}

/// A text as indices of characters, and the characters that the indices stand for.
pub(crate) struct Encoded {
    characters: Vec<char>,
    text: Tensor,
}

impl Encoded {
    pub(crate) fn new() -> Encoded {
        let mut characters: Vec<char> = TEXT.chars().collect();
        characters.sort_unstable();
        characters.dedup();
        let number = |c: char| characters.partition_point(|d| *d < c) as i64;
        Encoded { text: TEXT.chars().map(number).collect(), characters }
    }

    fn decoded(&self, numbers: &[i64]) -> String {
        numbers.iter().filter_map(|i| self.characters.get(usize::try_from(*i).ok()?)).collect()
    }
}

/// Returns the run that is saved in the checkpoint `file`.
pub(crate) fn load(
    file: &Path,
    options: &Options,
    data: &Encoded,
) -> Result<Run<Tensor>, tapeloom::Error> {
    let types = eval_shape(|()| options.start(data.characters.len()), ())?;
    files::load_safetensors(file, &types)
}

/// Trains to the last step and returns the run.
pub(crate) fn train(options: &Options, data: &Encoded) -> Result<Run<Tensor>, Box<dyn Error>> {
    let mut all = match &options.checkpoint {
        Some(file) if file.exists() && !options.resume => {
            let file = file.display();
            return Err(format!("`{file}` exists; go on with `--resume`, or remove it").into());
        }
        Some(file) if file.exists() => load(file, options, data)?,
        Some(_) | None => run(|()| options.start(data.characters.len()), ())?,
    };
    let step = jit(|(run, text): (Run<Var>, Var)| options.step(run, text));
    let done = all.step.item::<i64>()? as usize;
    let (began, terminal) = (Instant::now(), std::io::stdout().is_terminal());
    for i in done..options.steps {
        all = step.call((&all, &data.text))?;
        let last = i + 1 == options.steps;
        if let Some(file) = &options.checkpoint
            && ((i + 1) % options.every.max(1) == 0 || last)
        {
            files::save_safetensors(file, &all)?;
        }
        if terminal || (i + 1) % 100 == 0 || last {
            let milliseconds = began.elapsed().as_secs_f64() * 1e3 / (i + 1 - done) as f64;
            let loss = all.losses.get::<f32>(&[i])?;
            let line = format!("step {:4} of {}  loss {loss:.3}", i + 1, options.steps);
            print!("\r{line}  {milliseconds:.1} ms a step");
            if last || !terminal {
                println!();
            }
            std::io::stdout().flush()?;
        }
    }
    Ok(all)
}

/// Returns the text that the model writes after the first characters of the data.
fn continued(
    model: &Model<Tensor>,
    data: &Encoded,
    length: usize,
) -> Result<String, Box<dyn Error>> {
    let next = jit(|(model, seen, i): (Model<Var>, Var, Var)| {
        let last = scores(&model, seen).index(CONTEXT - 1);
        random::categorical(random::fold_in(random::key(2), i), 1.5 * last, 0)
    });
    let text = data.text.to_vec::<i64>()?;
    let mut written: Vec<i64> = text[..CONTEXT].to_vec();
    for i in 0..length {
        let seen = &written[written.len() - CONTEXT..];
        written.push(next.call((model, seen, i as i64))?.item()?);
    }
    Ok(data.decoded(&written[CONTEXT..]))
}

/// Draws the losses of all steps, and their moving average.
fn picture(losses: &[f32]) -> String {
    /// The size of the picture, and the margin around the axes, in pixels.
    const SIZE: (f64, f64) = (640.0, 360.0);
    const MARGIN: f64 = 40.0;
    let most = losses.iter().fold(1.0, |most: f32, x| most.max(x.ceil()));
    let place = |step: f64, loss: f64| {
        let x = MARGIN + step / losses.len().max(1) as f64 * (SIZE.0 - 2.0 * MARGIN);
        let y = SIZE.1 - MARGIN - loss / f64::from(most) * (SIZE.1 - 2.0 * MARGIN);
        (x, y)
    };
    let curve = |numbers: &[f64], colour: &str| {
        let points = numbers.iter().enumerate().map(|(i, loss)| {
            let (x, y) = place(i as f64 + 1.0, *loss);
            format!("{x:.1},{y:.1}")
        });
        let points: Vec<String> = points.collect();
        format!("<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>\n", points.join(" "))
    };
    let losses: Vec<f64> = losses.iter().map(|x| f64::from(*x)).collect();
    let mut mean = losses.first().copied().unwrap_or_default();
    let average = losses.iter().map(|x| {
        mean += 0.1 * (x - mean);
        mean
    });
    let average: Vec<f64> = average.collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        SIZE.0, SIZE.1
    );
    for loss in 0..=most as usize {
        let ((left, y), (right, _)) =
            (place(0.0, loss as f64), place(losses.len() as f64, loss as f64));
        svg += &format!(
            "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{loss}</text>\n",
            left - 16.0,
            y + 4.0
        );
    }
    svg += &curve(&losses, "#abd");
    svg += &curve(&average, "#c40");
    let (x, y) = place(losses.len() as f64, 0.0);
    svg += &format!(
        "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"end\">{} steps</text>\n\
         <text x=\"{MARGIN}\" y=\"24\">loss in nats per character</text>\n</svg>\n",
        y + 16.0,
        losses.len()
    );
    svg
}

/// Trains the model, plots the losses, and prints the text with which the model continues the data.
pub(crate) fn perform(options: &Options) -> Result<(), Box<dyn Error>> {
    let data = Encoded::new();
    let all = train(options, &data)?;
    if let Some(file) = &options.svg {
        files::replace(file, picture(&all.losses.to_vec::<f32>()?).as_bytes())?;
    }
    println!("{}", continued(&all.model, &data, 200)?);
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    perform(&Options::of(std::env::args().skip(1))?)
}

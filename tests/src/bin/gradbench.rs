//! Serves GradBench's protocol on stdin and stdout.

fn main() -> std::io::Result<()> {
    tapeloom_tests::gradbench::serve(std::io::stdin().lock(), std::io::stdout().lock())
}

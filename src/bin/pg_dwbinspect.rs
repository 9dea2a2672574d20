//! Inspects the double write buffer of a stopped PostgreSQL data directory.

use std::io::{BufWriter, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use pgforensics::cli::dwbinspect::{Cli, run};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::new(stdout().lock());
    run(cli, &mut out, &mut stderr()).into()
}

//! Tells how much of the WAL is full-page images.

use std::io::{BufWriter, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use pgforensics::cli::walfpi::{Cli, run};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::new(stdout().lock());
    run(cli, &mut out, &mut stderr()).into()
}

//! Tells how much of the WAL is full-page images.

use std::io::{BufWriter, stderr, stdout};
use std::process::ExitCode;

use pgforensics::cli::command_line;
use pgforensics::cli::walfpi::{Cli, run};

fn main() -> ExitCode {
    let cli: Cli = match command_line("pg_walfpi") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let mut out = BufWriter::new(stdout().lock());
    run(cli, &mut out, &mut stderr()).into()
}

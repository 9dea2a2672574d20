//! Inspects the double write buffer of a stopped PostgreSQL data directory.

use std::io::{BufWriter, stderr, stdout};
use std::process::ExitCode;

use pgforensics::cli::command_line;
use pgforensics::cli::dwbinspect::{Cli, run};

fn main() -> ExitCode {
    let cli: Cli = match command_line("pg_dwbinspect") {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    let mut out = BufWriter::new(stdout().lock());
    run(cli, &mut out, &mut stderr()).into()
}

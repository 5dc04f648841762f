//! The `understudy` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    understudy::cli::main()
}

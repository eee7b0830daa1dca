//! What all workloads promise to those who run them, seen at one of them.

use std::process::{Command, Output};

fn churn(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_churn"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn one_line_of_json_says_what_was_done() {
    let output = churn(&["--threads", "2", "--amount", "2001"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "{\"workload\":\"churn\",\"threads\":2,\"operations\":2001}\n"
    );
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn wrong_usage_is_exit_code_2_and_says_how_it_is_right() {
    let output = churn(&["--threads", "none"]);
    let message = "churn: `--threads` needs a whole number above 0, not `none`\n\nusage: churn [--threads N] [--amount N]\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), message);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

#[test]
fn help_goes_to_standard_output() {
    let output = churn(&["--help"]);
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && help.contains("--amount N"),
        "{help}"
    );
    assert!(help.lines().all(|line| line.len() <= 100), "{help}");
}

//! Servers under a load, both real.

use reheap_bench::metrics::Metric;
use reheap_bench::results::{Direction, Outcome};
use reheap_bench::run::{CommandLine, Finished, Launcher, Limits, RunError};
use reheap_bench::server::{Load, ReadySign, ServeError, Waiting, rehearse, serve};
use std::net::TcpListener;
use std::time::Duration;

const MIB: u64 = 1024 * 1024;

/// Allocates 64 MiB, listens on the port of its argument, answers each connection with its process id.
const SERVER: &str = "
import os, socket, sys
memory = bytearray(64 << 20)
server = socket.create_server(('127.0.0.1', int(sys.argv[1])))
print('listening', flush=True)
while True:
    connection, _ = server.accept()
    try:
        connection.sendall(b'%d' % os.getpid())
    except OSError:
        pass
    connection.close()
";

/// Asks once, and says what came.
const LOAD: &str = "
import socket, sys
connection = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
print('server', connection.recv(100).decode())
";

fn python(script: &str, port: u16) -> CommandLine {
    let arguments = ["python3", "-c", script, &port.to_string()];
    CommandLine {
        program: "/usr/bin/env".into(),
        arguments: arguments.iter().map(Into::into).collect(),
        ..CommandLine::default()
    }
}

fn load(command: CommandLine, ready: ReadySign) -> Load {
    Load {
        command,
        ready,
        ready_within: Duration::from_secs(60),
        stop_within: Duration::from_secs(10),
    }
}

/// A port that nobody listens on; the kernel does not give it to anybody else soon.
fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn line(pattern: &str) -> ReadySign {
    ReadySign::Line(pattern.parse().unwrap())
}

fn served(server: &CommandLine, load: &Load) -> Result<Finished, ServeError> {
    let metrics = [Metric::parse("pid=server (.*)", Direction::Lower).unwrap()];
    let launcher = Launcher::new().unwrap();
    serve(
        &launcher,
        server,
        load,
        &Limits::default(),
        &metrics,
        &mut |_| (),
    )
}

/// The error of a server that does not get ready, and how its run ended.
#[track_caller]
fn not_ready(script: &str, load: &Load) -> (String, Finished) {
    let error = served(&python(script, free_port()), load).unwrap_err();
    assert!(matches!(error, ServeError::NotReady { .. }), "{error:?}");
    let text = error.to_string();
    let (program, why) = text.split_once(": ").unwrap();
    assert_eq!(program, "cannot measure `/usr/bin/env`");
    (why.to_owned(), error.finished().unwrap().clone())
}

fn assert_was_served(finished: &Finished) {
    assert_eq!(
        finished.outcome,
        Outcome::Exited(0),
        "{}",
        finished.stderr.last_lines(9)
    );
    // Python with 64 MiB of its own is the server; the load generator is smaller.
    let peak = finished.cost.peak_rss_bytes;
    assert!((64 * MIB..128 * MIB).contains(&peak), "{peak} bytes");
    let pid = finished.metrics["pid"];
    assert!(
        !std::path::Path::new(&format!("/proc/{pid}")).exists(),
        "{pid} still runs"
    );
}

#[test]
fn a_server_is_measured_while_a_load_generator_asks_it() {
    let port = free_port();
    let load = load(python(LOAD, port), ReadySign::Port(port));
    assert_was_served(&served(&python(SERVER, port), &load).unwrap());
}

#[test]
fn a_server_can_say_that_it_is_ready() {
    let port = free_port();
    let load = load(python(LOAD, port), line("^listening$"));
    assert_was_served(&served(&python(SERVER, port), &load).unwrap());
}

#[test]
fn the_processor_time_is_the_servers() {
    let port = free_port();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("seconds");
    // The server is busy before the load generator begins, and says how long it was.
    let work = format!(
        "import resource, time; sum(range(3000000))\n\
         used = resource.getrusage(resource.RUSAGE_SELF)\n\
         open('{}', 'w').write(str(used.ru_utime))\n\
         print('ready', flush=True); time.sleep(1000)",
        file.display()
    );
    let nothing = CommandLine {
        program: "/bin/true".into(),
        ..CommandLine::default()
    };
    let load = load(nothing, line("ready"));
    let cost = served(&python(&work, port), &load).unwrap().cost;
    let said = std::fs::read_to_string(file).unwrap();
    let used: f64 = said.parse().unwrap();
    assert!(cost.user_seconds >= used, "{cost:?}: {said}");
}

#[test]
fn a_port_that_somebody_else_listens_on_is_refused() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let load = load(python(LOAD, port), ReadySign::Port(port));
    let error = served(&python(SERVER, port), &load).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot start `/usr/bin/env`: something listens on port {port} already")
    );
}

#[test]
fn a_server_that_ends_before_it_is_ready_is_told_with_its_last_words() {
    let port = free_port();
    let on_port = load(python(LOAD, port), ReadySign::Port(port));
    let (why, finished) = not_ready("import os; os.abort()", &on_port);
    assert_eq!(
        why,
        format!("it crashed (SIGABRT) before it listened on port {port}")
    );
    assert_eq!(finished.outcome, Outcome::Signalled(6));

    let on_line = load(python(LOAD, port), line("^listening$"));
    let (why, finished) = not_ready("raise SystemExit('no such file: a.conf')", &on_line);
    let expected = "it ended with exit code 1 before a line of its output matched `^listening$`";
    assert_eq!(why, expected);
    assert_eq!(finished.stderr.last_lines(1), "no such file: a.conf");
}

#[test]
fn a_server_that_crashes_under_the_load_is_a_result_and_ends_the_load() {
    let port = free_port();
    let crashing = SERVER.replace(
        "connection.sendall",
        "os.kill(os.getpid(), 11)\n        connection.sendall",
    );
    let waiting = format!("{LOAD}\nimport time; time.sleep(1000)");
    let load = load(python(&waiting, port), line("listening"));
    let finished = served(&python(&crashing, port), &load).unwrap();
    assert_eq!(finished.outcome, Outcome::Signalled(11));
}

#[test]
fn a_server_that_crashes_when_it_is_stopped_is_a_result() {
    let port = free_port();
    let crash =
        "import os, signal; signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), 11))";
    let load = load(python(LOAD, port), ReadySign::Port(port));
    let finished = served(&python(&format!("{crash}\n{SERVER}"), port), &load).unwrap();
    assert_eq!(finished.outcome, Outcome::Signalled(11));
}

#[test]
fn a_server_that_goes_into_the_background_is_refused() {
    let port = free_port();
    let forks = format!("import os\nif os.fork(): os._exit(0)\n{SERVER}");
    let load = load(python(LOAD, port), line("never printed"));
    let error = served(&python(&forks, port), &load).unwrap_err();
    assert!(
        matches!(error, ServeError::NotInForeground { .. }),
        "{error:?}"
    );
}

#[test]
fn a_server_that_never_gets_ready_is_told_with_the_time_it_had() {
    let port = free_port();
    let mut load = load(python(LOAD, port), ReadySign::Port(port));
    load.ready_within = Duration::from_millis(100);
    let waits = "import time; time.sleep(1000)";
    let (why, finished) = not_ready(waits, &load);
    assert_eq!(why, format!("nothing listened on port {port} within 0.1 s"));
    assert_eq!(finished.outcome, Outcome::TimedOut);

    load.ready = line("never printed");
    let (why, _) = not_ready(waits, &load);
    let expected = "no line of its output matched `never printed` within 0.1 s";
    assert_eq!(why, expected);
}

#[test]
fn a_rehearsal_starts_the_server_and_ends_it_without_any_load() {
    let port = free_port();
    let mut missing = python(LOAD, port);
    missing.program = "/no/such/load".into();
    let load = load(missing, ReadySign::Port(port));
    let rehearsed = |script: &str| {
        let launcher = Launcher::new().unwrap();
        let server = python(script, port);
        rehearse(&launcher, &server, &load, &Limits::default(), &mut |_| ())
    };
    rehearsed(SERVER).unwrap();
    TcpListener::bind(("127.0.0.1", port)).expect("the port is free again");
    let error = rehearsed("import os; os.abort()").unwrap_err();
    assert!(matches!(error, ServeError::NotReady { .. }), "{error:?}");
}

#[test]
fn whoever_waits_for_a_slow_server_is_told_when_that_begins_and_ends() {
    let port = free_port();
    let directory = tempfile::tempdir().unwrap();
    let told = directory.path().join("told");
    // It gets ready when somebody was told, however long that takes.
    let slow = format!(
        "import os, time\nwhile not os.path.exists('{}'): time.sleep(0.01)\n{SERVER}",
        told.display()
    );
    let load = load(python(LOAD, port), ReadySign::Port(port));
    let launcher = Launcher::new().unwrap();
    let mut events = Vec::new();
    let mut on_wait = |waiting| {
        events.push(waiting);
        std::fs::write(&told, "").unwrap();
    };
    let (server, limits) = (python(&slow, port), Limits::default());
    serve(&launcher, &server, &load, &limits, &[], &mut on_wait).unwrap();
    assert!(
        matches!(events[..], [Waiting::Since(_), Waiting::Over]),
        "{events:?}"
    );
}

#[test]
fn a_load_generator_that_fails_is_the_outcome() {
    let port = free_port();
    let load = load(python("raise SystemExit(7)", port), ReadySign::Port(port));
    let finished = served(&python(SERVER, port), &load).unwrap();
    assert_eq!(finished.outcome, Outcome::Exited(7));
}

#[test]
fn a_load_generator_that_does_not_exist_is_an_error_and_the_server_is_stopped() {
    let port = free_port();
    let mut missing = python(LOAD, port);
    missing.program = "/no/such/load".into();
    let load = load(missing, ReadySign::Port(port));
    let error = served(&python(SERVER, port), &load).unwrap_err();
    assert!(
        matches!(error, ServeError::Run(RunError::Start { .. })),
        "{error:?}"
    );
    TcpListener::bind(("127.0.0.1", port)).expect("the port is free again");
}

#[test]
fn a_server_that_does_not_end_when_asked_is_killed() {
    let port = free_port();
    let stubborn =
        format!("import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{SERVER}");
    let mut load = load(python(LOAD, port), ReadySign::Port(port));
    load.stop_within = Duration::from_millis(10);
    assert_was_served(&served(&python(&stubborn, port), &load).unwrap());
}

//! `reheap run` with the programs that people run: interpreters and servers of glibc, as the distribution builds them.
//! Each does some work, and it and the processes that it starts have the library in their memory.

use crate::common::{cache_for_all, command, reheap, run};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The allocator, and what its library is called.
const ALLOCATORS: [(&str, &str); 2] = [
    ("mimalloc", "/libmimalloc-2.3.2.so"),
    ("jemalloc", "/libjemalloc-5.3.1.so"),
];

/// `reheap run -a <allocator> --`, ready for a command. Servers often lie where only root looks.
fn reheap_run(allocator: &str) -> Command {
    let mut command = reheap(&format!("run -a {allocator} --"));
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.env_remove("LD_PRELOAD");
    command
}

#[track_caller]
fn interpreter(program: &str, arguments: &[&str]) {
    for (allocator, library) in ALLOCATORS {
        let mut command = reheap_run(allocator);
        let outcome = run(command.arg(program).args(arguments)).succeeded();
        let (answer, maps) = outcome.stdout.split_once('\n').unwrap();
        assert_eq!(answer, "499999500000", "{allocator}");
        assert!(
            maps.contains(library),
            "{program} has no {library}:\n{maps}"
        );
    }
}

#[test]
fn python_works_and_has_the_library() {
    let program = "import json\n\
        numbers = json.loads(json.dumps([{'n': n} for n in range(1000000)][:200000]))\n\
        print(sum(range(1000000)) if len(numbers) == 200000 else 'lost some')\n\
        print(open('/proc/self/maps').read())";
    interpreter("python3", &["-c", program]);
}

#[test]
fn node_works_and_has_the_library() {
    let program = "const parts = []; let sum = 0;\n\
        for (let n = 0; n < 1000000; n++) { sum += n; if (n % 100 == 0) parts.push(Buffer.alloc(n / 100)); }\n\
        console.log(parts.length == 10000 ? sum : 'lost some');\n\
        console.log(require('fs').readFileSync('/proc/self/maps', 'utf8'));";
    interpreter("node", &["-e", program]);
}

#[test]
fn ruby_works_and_has_the_library() {
    let program = "words = (0...200000).map { |n| \"word #{n}\" * 3 }\n\
        puts(words.uniq.length == 200000 ? (0...1000000).sum : 'lost some')\n\
        puts File.read('/proc/self/maps')";
    interpreter("ruby", &["-e", program]);
}

/// A server that was started by reheap, and so is this process's child itself.
struct Server {
    child: Child,
    end_with: rustix::process::Signal,
}

impl Server {
    fn start(command: &mut Command, end_with: rustix::process::Signal) -> Self {
        let cache = command
            .get_envs()
            .find(|(name, _)| *name == "REHEAP_CACHE_DIR");
        let cache = cache.unwrap().1.unwrap().to_owned();
        for (allocator, _) in ALLOCATORS {
            // To build a library takes longer than any server to start.
            let mut program = reheap_run(allocator);
            run(program.env("REHEAP_CACHE_DIR", &cache).arg("true")).succeeded();
        }
        let program = format!("{command:?}");
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = spawned.unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
        Self { child, end_with }
    }

    /// Waits until somebody listens.
    #[track_caller]
    fn connect<S>(&mut self, attempt: impl FnMut() -> std::io::Result<S>) -> S {
        command::connect(&mut self.child, attempt)
    }

    /// Checks that the program and all processes below it have the library.
    #[track_caller]
    fn has(&self, library: &str, processes_min: usize) {
        let mut family = vec![self.child.id()];
        let mut next = 0;
        while next < family.len() {
            family.extend(children(family[next]));
            next += 1;
        }
        let mut having = 0;
        for pid in family {
            // One of those below the server may have ended since. An end in the middle of the reading cuts it off.
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            let has_ended = !maps.contains("[stack]") && pid != self.child.id();
            assert!(
                has_ended || maps.contains(library),
                "{pid} has no {library}:\n{maps}"
            );
            having += usize::from(!has_ended);
        }
        assert!(having >= processes_min, "only {having} run");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let server = rustix::process::Pid::from_child(&self.child);
        // It may have ended by itself; either way there is nothing to be done about it here.
        let _ = rustix::process::kill_process(server, self.end_with);
        if !command::ends_within(server, command::EVENT_DEADLINE) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn children(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The name may have blanks in it and ends with the last parenthesis (proc_pid_stat(5)).
        let behind_name = stat.rsplit(')').next().unwrap_or_default();
        behind_name.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    pids.filter(is_child).collect()
}

#[track_caller]
fn ask(mut stream: impl Read + Write + Send + 'static, question: &[u8], answer: &[u8]) {
    let (question, mut found) = (question.to_vec(), vec![0; answer.len()]);
    let found = command::in_time("the server's answer", move || {
        stream.write_all(&question)?;
        stream.read_exact(&mut found)?;
        std::io::Result::Ok(found)
    });
    let found = found.unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&found), text(answer));
}

/// A directory that other users may enter: servers give up root's rights.
fn open_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    directory
}

#[test]
fn java_works_and_has_the_library() {
    for (allocator, library) in ALLOCATORS {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let mut command = reheap_run(allocator);
        // A server that every Java has: the registry of remote objects.
        command.args(["java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-m"]);
        command.args(["java.rmi/sun.rmi.registry.RegistryImpl", &port.to_string()]);
        let mut server =
            Server::start(command.stderr(Stdio::null()), rustix::process::Signal::TERM);
        let stream = server.connect(|| TcpStream::connect(("127.0.0.1", port)));
        // Its greeting, and the acknowledgement (Java RMI specification, "RMI Wire Protocol").
        ask(stream, b"JRMI\x00\x02\x4b", b"\x4e");
        server.has(library, 1);
    }
}

/// Debian's is linked with jemalloc's library, whose place the preload takes.
#[test]
fn redis_works_and_has_the_library() {
    for (allocator, library) in ALLOCATORS {
        let directory = open_directory();
        let socket = directory.path().join("socket");
        let mut command = reheap_run(allocator);
        command.args([
            "redis-server",
            "--port",
            "0",
            "--save",
            "",
            "--daemonize",
            "no",
            "--dir",
        ]);
        command
            .arg(directory.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stderr(Stdio::null());
        let mut server = Server::start(&mut command, rustix::process::Signal::TERM);
        let stream = server.connect(|| UnixStream::connect(&socket));
        let value = "x".repeat(10_000);
        let question = format!("SET key {value}\r\nSTRLEN key\r\nAPPEND key more\r\n");
        ask(stream, question.as_bytes(), b"+OK\r\n:10000\r\n:10004\r\n");
        server.has(library, 1);
    }
}

#[test]
fn nginx_works_and_its_workers_have_the_library() {
    for (allocator, library) in ALLOCATORS {
        let directory = open_directory();
        let path = |name: &str| directory.path().join(name).display().to_string();
        fs::write(path("hello"), "hello\n").unwrap();
        let user = if rustix::process::geteuid().is_root() {
            "user root;"
        } else {
            ""
        };
        let configuration = format!(
            "daemon off; {user} worker_processes 2; pid {}; error_log {};
             events {{}}
             http {{
                 access_log off; client_body_temp_path {}; proxy_temp_path {}; fastcgi_temp_path {};
                 uwsgi_temp_path {}; scgi_temp_path {};
                 server {{ listen unix:{}; root {}; }}
             }}",
            path("pid"),
            path("error.log"),
            path("a"),
            path("b"),
            path("c"),
            path("d"),
            path("e"),
            path("socket"),
            directory.path().display(),
        );
        fs::write(path("nginx.conf"), configuration).unwrap();
        let mut command = reheap_run(allocator);
        command.args(["nginx", "-e", &path("error.log"), "-c", &path("nginx.conf")]);
        let mut server = Server::start(&mut command, rustix::process::Signal::TERM);
        let stream = server.connect(|| UnixStream::connect(path("socket")));
        ask(
            stream,
            b"GET /hello HTTP/1.0\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n",
        );
        // The master and at least the worker that has answered.
        server.has(library, 2);
    }
}

/// Where PostgreSQL's programs lie: Debian keeps them out of PATH, one directory for each version.
fn postgres_programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let mut directories: Vec<PathBuf> = versions
        .map(|entry| entry.unwrap().path().join("bin"))
        .collect();
    directories.sort();
    directories.pop().unwrap_or_else(|| "/usr/bin".into())
}

/// PostgreSQL does not run as root.
fn as_somebody_else() -> Vec<&'static str> {
    if rustix::process::geteuid().is_root() {
        vec![
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ]
    } else {
        vec!["env"]
    }
}

#[test]
fn postgresql_works_and_its_backends_have_the_library() {
    let directory = open_directory();
    for (allocator, _) in ALLOCATORS {
        run(reheap_run(allocator).arg("true")).succeeded(); // builds the library
    }
    let cache = cache_for_all(directory.path());
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o777)).unwrap();
    let (programs, data) = (postgres_programs(), data.join("base"));
    let [first, rest @ ..] = &as_somebody_else()[..] else {
        unreachable!("it is not empty")
    };
    let mut initdb = Command::new(first);
    initdb
        .args(rest)
        .arg(programs.join("initdb"))
        .arg("-D")
        .arg(&data);
    run(initdb
        .args(["--no-sync", "--auth=trust", "--username=somebody"])
        .current_dir("/"))
    .succeeded();
    for (allocator, library) in ALLOCATORS {
        let mut command = reheap_run(allocator);
        command
            .env("REHEAP_CACHE_DIR", &cache)
            .arg(first)
            .args(rest)
            .arg(programs.join("postgres"));
        command.arg("-D").arg(&data).arg("-k").arg(&data);
        command
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .stderr(Stdio::null())
            .current_dir("/");
        let mut server = Server::start(&mut command, rustix::process::Signal::INT);
        let socket = data.join(".s.PGSQL.5432");
        server.connect(|| UnixStream::connect(&socket));
        let query = "select count(distinct md5(n::text)) from generate_series(1, 20000) as n";
        let mut psql = Command::new(programs.join("psql"));
        psql.args(["-U", "somebody", "-At", "-c", query, "postgres"])
            .env("PGHOST", &data);
        // It listens a moment before it is ready to answer, and says so.
        let answer = server.connect(|| match run(&mut psql) {
            outcome if outcome.stderr.contains("starting up") => {
                Err(std::io::ErrorKind::ResourceBusy.into())
            }
            outcome => Ok(outcome.succeeded().stdout),
        });
        assert_eq!(answer, "20000\n");
        server.has(library, 4);
    }
}

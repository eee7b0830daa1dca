//! Images in registries: what comes from there and what goes there, and registries that do not behave.

use crate::common::command::{EVENT_DEADLINE, Running};
use crate::common::registry::{Answer, Bad, Registry, Request, serve};
use crate::common::workshop::{Workshop, parsed};
use crate::common::{reheap, run};
use reheap_image::blob::Blob;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn an_image_goes_to_a_registry_and_comes_back() {
    let workshop = Workshop::new();
    let registry = Registry::start();
    let name = format!("{}/team/cat", registry.host);
    workshop.made("/bin/cat --with-libraries -o base.tar");
    let line = format!("--add mimalloc base.tar --push {name}:1");
    run(&mut workshop.image(&line))
        .ended_with(1)
        .said(&["refuses access without a login", "docker login"]);
    let login = |auth: &str| {
        let host = &registry.host;
        workshop.write(
            "auth.json",
            json!({"auths": {host: {"auth": auth}}}).to_string(),
        )
    };
    login("dXNlcjp3cm9uZw=="); // user:wrong
    run(&mut workshop.image(&line))
        .ended_with(1)
        .said(&["refuses access to user"]);
    login("dXNlcjpzZWNyZXQ="); // user:secret
    let pushed = workshop.made(&line);
    assert_eq!(pushed["pushed_to"], format!("{name}:1"));
    let flags = "--tls-verify=false --creds user:secret";
    let remote = workshop
        .tool(&format!("skopeo inspect --raw {flags} docker://{name}:1"))
        .stdout;
    assert_eq!(
        Blob::of_bytes(remote.into_bytes()).digest().to_string(),
        pushed["digest"]
    );

    // From registry to registry, and from there into a file.
    workshop.made(&format!(
        "--remove docker://{name}:1 --push {name}:2 -o removed.tar"
    ));
    assert_eq!(
        workshop.manifest_digest("oci-archive:removed.tar"),
        workshop.manifest_digest("oci-archive:base.tar")
    );
    let by_digest = format!(
        "--remove {name}@{} -o by-digest.tar",
        pushed["digest"].as_str().unwrap()
    );
    assert_eq!(workshop.made(&by_digest)["restored"], true);
    run(&mut workshop.image(&format!("--remove {name}:none -o x.tar")))
        .ended_with(1)
        .said(&["has no image"]);
    workshop.made(&format!("/bin/cat --with-libraries --push {name}:3"));
    let other = workshop
        .tool(&format!("skopeo inspect --raw {flags} docker://{name}:3"))
        .stdout;
    assert!(
        other.contains("application/vnd.oci.image.manifest.v1+json"),
        "{other}"
    );
}

#[test]
fn an_image_in_a_registry_is_inspected_by_the_name_that_a_hint_shows() {
    let workshop = Workshop::new();
    let registry = Registry::start();
    let name = format!("{}/team/cat:1", registry.host);
    let login = |auth: &str| {
        let auths = json!({"auths": {&registry.host: {"auth": auth}}});
        workshop.write("auth.json", auths.to_string())
    };
    let inspected = |line: &str| {
        let mut command = reheap(&format!("inspect {line}"));
        run(command.env("REGISTRY_AUTH_FILE", workshop.path("auth.json")))
    };
    login("dXNlcjpzZWNyZXQ="); // user:secret
    workshop.made(&format!("/bin/cat --with-libraries --push {name}"));
    let refused = inspected(&name).ended_with(1);
    let (_, hint) = refused
        .stderr
        .split_once("hint: an image in a registry: reheap inspect ")
        .unwrap();
    let shown = inspected(hint.trim()).succeeded().stdout;
    assert!(
        shown.starts_with(&format!("docker://{name} /usr/local/bin/cat: stock glibc")),
        "{shown}"
    );
    inspected(&format!("--expect glibc docker://{name}")).succeeded();
    inspected(&format!("--expect mimalloc docker://{name}")).ended_with(3);
    login("dXNlcjp3cm9uZw=="); // user:wrong
    inspected(&format!("docker://{name}")).ended_with(1).said(&[
        "the registry refuses access to user",
        "hint: log in: docker login",
    ]);
    inspected("no/such/file")
        .ended_with(1)
        .said(&["there is no such file\n"]);
}

#[test]
fn a_registry_that_does_not_behave_gets_a_clear_error_and_leaves_nothing() {
    let pulled = |answer: Box<dyn Fn(&Request) -> Answer + Send>| {
        let workshop = Workshop::new();
        let (host, _paths) = serve(answer);
        let outcome =
            run(&mut workshop.image(&format!("--remove {host}/app:1 -o out.tar"))).ended_with(1);
        assert_eq!(workshop.names(), [""; 0]);
        outcome
    };
    let of_blobs = |change: fn(&mut Answer)| -> Box<dyn Fn(&Request) -> Answer + Send> {
        let bad = Bad::new();
        Box::new(move |request: &Request| {
            let mut answer = bad.answer(request);
            if answer.body == bad.layer {
                change(&mut answer);
            }
            answer
        })
    };
    pulled(of_blobs(|_| {})).said(&["reheap has added nothing to it"]);
    pulled(of_blobs(|answer| {
        answer.body.truncate(700);
        answer.missing_bytes = 9540;
    }))
    .said(&["sent 700 of the", "bytes of sha256:"]);
    pulled(of_blobs(|answer| answer.body.truncate(700))).said(&["sent 700 of the"]);
    pulled(of_blobs(|answer| answer.body[0] ^= 1))
        .said(&["the image is damaged: what it calls sha256:"]);
    pulled(of_blobs(|answer| answer.body.extend([0; 512]))).said(&["is longer than"]);
    pulled(Box::new(|request: &Request| match request.path.as_str() {
        "/v2/" => Answer::ok("{}"),
        _ => Answer::error("404 Not Found"),
    }))
    .said(&["the registry has no image 127.0.0.1"]);
    pulled(Box::new(|_: &Request| Answer::error("401 Unauthorized")))
        .said(&["refuses access without a login"]);
    pulled(Box::new(|_: &Request| {
        Answer::error("500 Internal Server Error")
    }))
    .said(&["HTTP 500"]);
    pulled(Box::new(|request: &Request| match request.path.as_str() {
        "/v2/" => Answer::ok("{}"),
        _ => Answer::ok("{\"schemaVersion\":1}"),
    }))
    .said(&["schema 1"]);
    pulled(Box::new(|_: &Request| Answer {
        headers: "WWW-Authenticate: Bearer realm=\"http://127.0.0.1:1/token\"\r\n".to_owned(),
        ..Answer::error("401 Unauthorized")
    }))
    .said(&["cannot connect to 127.0.0.1:1: "]);
    // What is read into memory, however long a registry makes it.
    let blanks = || b" ".repeat(5 << 20);
    let bad = Bad::new();
    pulled(Box::new(move |request: &Request| {
        let mut answer = bad.answer(request);
        if request.path.contains("/manifests/") {
            answer.body.extend(blanks());
        }
        answer
    }))
    .said(&["an answer has more than 4 MiB"]);
    let bad = Bad::new();
    pulled(Box::new(move |request: &Request| {
        if !request.path.contains("/blobs/") {
            bad.answer(request)
        } else {
            Answer {
                body: blanks(),
                ..Answer::error("500 Internal Server Error")
            }
        }
    }))
    .said(&["an answer has more than 4 MiB"]);
    pulled(Box::new(move |request: &Request| {
        if request.path.starts_with("/token") {
            Answer::ok(blanks())
        } else {
            Answer {
                headers: format!(
                    "WWW-Authenticate: Bearer realm=\"http://{}/token\"\r\n",
                    request.host
                ),
                ..Answer::error("401 Unauthorized")
            }
        }
    }))
    .said(&["an answer has more than 4 MiB"]);
}

#[test]
fn an_image_with_too_many_layers_is_refused_before_any_is_pulled() {
    let bad = Bad::new();
    let mut manifest = parsed(&bad.manifest);
    let layer = manifest["layers"][0].clone();
    manifest["layers"] = vec![layer; 501].into();
    let bad = Bad {
        manifest: manifest.to_string(),
        ..bad
    };
    let (host, paths) = serve(move |request| bad.answer(request));
    let workshop = Workshop::new();
    run(&mut workshop.image(&format!("--remove {host}/app:1 -o out.tar")))
        .ended_with(1)
        .said(&["more than 500 layers"]);
    let blobs = paths.try_iter().filter(|path| path.contains("/blobs/"));
    assert_eq!(blobs.count(), 0);
}

/// Refuses the image at first, and whoever comes again before the time is over.
fn impatient(header: impl Fn(Duration) -> String + Send + 'static, wait: Duration) -> String {
    let bad = Bad::new();
    let mut free: Option<Instant> = None;
    let answer = move |request: &Request| {
        if request.path == "/v2/" || free.is_some_and(|free| Instant::now() >= free) {
            return bad.answer(request);
        }
        // `HEAD` may ask how long; whoever wants the image itself again is too early.
        let is_early = free.is_some() && request.method != "HEAD";
        free.get_or_insert_with(|| Instant::now() + wait);
        Answer {
            headers: format!("Retry-After: {}\r\n", header(wait)),
            ..Answer::error(if is_early {
                "400 Bad Request"
            } else {
                "429 Too Many Requests"
            })
        }
    };
    serve(answer).0
}

#[test]
fn a_busy_registry_is_asked_again_after_the_time_that_it_asks_for_and_not_before() {
    let seconds = |wait: Duration| wait.as_secs().to_string();
    let date = |wait: Duration| {
        // A date has no parts of seconds.
        let date = format!("+{} seconds", wait.as_secs() + 1);
        let format = "+%a, %d %b %Y %H:%M:%S GMT";
        let mut command = Command::new("date");
        let date = run(command
            .env("LC_ALL", "C")
            .args(["--utc", "--date", &date, format]));
        date.succeeded().stdout.trim().to_owned()
    };
    let asked_again = |host: String| {
        let workshop = Workshop::new();
        run(&mut workshop.image(&format!("--remove {host}/app:1 -o out.tar"))).ended_with(1)
    };
    let wait = Duration::from_secs(3);
    for host in [impatient(seconds, wait), impatient(date, wait)] {
        asked_again(host).said(&[
            "the registry is busy; the next try is in",
            "reheap has added nothing to it",
        ]);
    }
    let hour = impatient(seconds, Duration::from_secs(3600));
    asked_again(hour).said(&["the registry is busy (HTTP 429), and asks to wait 1h"]);
}

#[test]
fn ctrl_c_ends_the_wait_for_a_busy_registry() {
    let (host, paths) = serve(|_| Answer {
        headers: "Retry-After: 50\r\n".to_owned(),
        ..Answer::error("429 Too Many Requests")
    });
    let workshop = Workshop::new();
    let running = Running::start(&mut workshop.image(&format!("--remove {host}/app:1 -o out.tar")));
    // The login, and how long to wait.
    for _ in 0..2 {
        paths.recv_timeout(EVENT_DEADLINE).unwrap();
    }
    kill_process(running.pid(), Signal::INT).unwrap();
    running
        .finish(Duration::from_secs(40))
        .ended_with(130)
        .said(&["interrupted"]);
    assert_eq!(workshop.names(), [""; 0]);
}

/// A registry that wants a token for everything, ends the first one early, and gives some only for an identity token.
fn with_tokens() -> String {
    let bad = Bad::new();
    let mut issued = 0;
    let answer = move |request: &Request| {
        if request.path.starts_with("/token") {
            let fields: Vec<&str> = request.body.split('&').collect();
            let expected = [
                "grant_type=refresh_token",
                "refresh_token=secret%2Fidentity",
                "scope=repository%3Aapp%3Apull",
                "service=test",
            ];
            if request.method != "POST" || expected.iter().any(|field| !fields.contains(field)) {
                return Answer::error("400 Bad Request");
            }
            issued += 1;
            return Answer::ok(format!("{{\"access_token\":\"token-{issued}\"}}"));
        }
        let is_good = if request.path.contains("/blobs/") {
            request.authorization == "Bearer token-2"
        } else {
            request.authorization.starts_with("Bearer token-")
        };
        if is_good {
            bad.answer(request)
        } else {
            Answer {
                headers: format!(
                    "WWW-Authenticate: Bearer realm=\"http://{}/token\",service=\"test\"\r\n",
                    request.host
                ),
                ..Answer::error("401 Unauthorized")
            }
        }
    };
    serve(answer).0
}

#[test]
fn an_identity_token_is_exchanged_for_others_that_end() {
    let pulled = |login: &dyn Fn(&str) -> Value, code: i32| {
        let workshop = Workshop::new();
        let host = with_tokens();
        workshop.write("auth.json", login(&host).to_string());
        let helper = "#!/bin/sh\ncat > /dev/null\necho '{\"Username\":\"<token>\",\"Secret\":\"secret/identity\"}'\n";
        let helper = workshop.write("bin/docker-credential-test", helper);
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", helper.parent().unwrap().display());
        let mut command = workshop.image(&format!("--remove {host}/app:1 -o out.tar"));
        run(command.env("PATH", path)).ended_with(code)
    };
    let of_file = |token: &'static str| move |host: &str| json!({"auths": {host: {"auth": "", "identitytoken": token}}});
    let read = "reheap has added nothing to it";
    pulled(&of_file("secret/identity"), 1).said(&[read]);
    pulled(&|host| json!({"credHelpers": {host: "test"}}), 1).said(&[read]);
    pulled(&of_file("other"), 1).said(&[
        "the registry refuses access to the owner of the identity token",
        "docker login",
    ]);
}

/// A registry that lets everybody in, and wants a login or a token only for what not everybody may do.
fn open_to_all(challenge: fn(&Request) -> String, is_good: fn(&Request) -> bool) -> String {
    let bad = Bad::new();
    let answer = move |request: &Request| {
        let is_upload = request.path.contains("/uploads/");
        let is_open = request.path == "/v2/" || request.path.contains("/public/") && !is_upload;
        match () {
            () if request.path.starts_with("/token") => {
                Answer::ok(json!({"token": request.authorization}).to_string())
            }
            () if !is_open && !is_good(request) => Answer {
                headers: format!("WWW-Authenticate: {}\r\n", challenge(request)),
                ..Answer::error("401 Unauthorized")
            },
            () if request.method == "POST" => Answer {
                headers: format!("Location: http://{}{}1\r\n", request.host, request.path),
                ..Answer::error("202 Accepted")
            },
            () if request.method == "PUT" => Answer {
                headers: format!("Location: http://{}/there\r\n", request.host),
                ..Answer::error("201 Created")
            },
            () if request.method == "HEAD" => Answer::error("404 Not Found"),
            () => bad.answer(request),
        }
    };
    serve(answer).0
}

#[test]
fn a_login_counts_in_a_registry_that_asks_for_it_only_when_it_refuses_something() {
    let basic = || {
        open_to_all(
            |_| "Basic realm=\"x\"".to_owned(),
            |request| request.authorization == "Basic dXNlcjpzZWNyZXQ=",
        )
    };
    let token = || {
        open_to_all(
            |request| {
                format!(
                    "Bearer realm=\"http://{}/token\",service=\"test\"",
                    request.host
                )
            },
            |request| request.authorization == "Bearer Basic dXNlcjpzZWNyZXQ=",
        )
    };
    for host in [basic(), token()] {
        let workshop = Workshop::new();
        let image = |line: String| run(&mut workshop.image(&line));
        let no_login = "the registry refuses access without a login";
        image(format!("--remove {host}/private/app:1 -o out.tar"))
            .ended_with(1)
            .said(&[no_login]);
        let auth = json!({"auths": {&host: {"auth": "dXNlcjpzZWNyZXQ="}}});
        workshop.write("auth.json", auth.to_string());
        image(format!("--remove {host}/private/app:1 -o out.tar"))
            .ended_with(1)
            .said(&["reheap has added nothing to it"]);
        workshop.hello();
        image(format!("hello --push {host}/public/app:1")).succeeded();
        let auth = json!({"auths": {&host: {"auth": "dXNlcjp3cm9uZw=="}}});
        workshop.write("auth.json", auth.to_string());
        image(format!("--remove {host}/private/app:1 -o out.tar"))
            .ended_with(1)
            .said(&["refuses access to user"]);
    }
}

#[test]
fn a_token_that_ends_during_a_wait_is_renewed() {
    let bad = Bad::new();
    let mut issued = 0;
    let mut has_waited = false;
    let (host, _paths) = serve(move |request| {
        if request.path.starts_with("/token") {
            issued += 1;
            return Answer::ok(format!("{{\"token\":\"token-{issued}\"}}"));
        }
        let is_of_layer = request.path.contains("/blobs/");
        let good = if has_waited {
            "Bearer token-2"
        } else {
            "Bearer token-1"
        };
        match () {
            () if request.authorization != good => Answer {
                headers: format!(
                    "WWW-Authenticate: Bearer realm=\"http://{}/token\"\r\n",
                    request.host
                ),
                ..Answer::error("401 Unauthorized")
            },
            () if is_of_layer && !has_waited => {
                // `HEAD` only asks how long.
                has_waited = request.method == "HEAD";
                Answer::error("429 Too Many Requests")
            }
            () => bad.answer(request),
        }
    });
    let workshop = Workshop::new();
    run(&mut workshop.image(&format!("--remove {host}/app:1 -o out.tar")))
        .ended_with(1)
        .said(&["reheap has added nothing to it"]);
}

#[test]
fn ctrl_c_ends_a_pull_and_leaves_nothing() {
    let bad = Bad::new();
    let (host, paths) = serve(move |request| {
        let mut answer = bad.answer(request);
        if answer.body == bad.layer {
            answer.body.truncate(700);
            answer.missing_bytes = 9540;
            answer.stalls = true;
        }
        answer
    });
    let workshop = Workshop::new();
    let running = Running::start(&mut workshop.image(&format!("--remove {host}/app:1 -o out.tar")));
    let layer = Blob::of_bytes(Bad::new().layer).digest().to_string();
    while !paths
        .recv_timeout(EVENT_DEADLINE)
        .expect("it asks for the layer")
        .ends_with(&layer)
    {}
    kill_process(running.pid(), Signal::INT).unwrap();
    let outcome = running.finish(EVENT_DEADLINE);
    outcome.ended_with(130).said(&["interrupted"]);
    assert_eq!(workshop.names(), [""; 0]);
}

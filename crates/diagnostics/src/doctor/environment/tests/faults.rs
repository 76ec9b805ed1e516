//! Tests with a machine for each fault.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::super::{EnvironmentCheck, EnvironmentDoctor, EnvironmentPart, EnvironmentReport, Outcome, World};
use super::{CERTIFICATE, Folder, resolving};
use mcpjoin::transport::ChildCommand;

const BIN: &str = "/home/u/.nvm/versions/node/v22.1.0/bin";

async fn examine(world: World) -> EnvironmentReport {
    EnvironmentDoctor::new(world).examine().await
}

#[track_caller]
fn found(report: &EnvironmentReport, ids: &[&str]) {
    let found: Vec<&str> = report.findings.iter().map(|finding| finding.id).collect();
    assert_eq!(found, ids, "{:#?}", report.findings);
    let failed: Vec<EnvironmentCheck> =
        report.checks.iter().filter(|(_, how)| *how == Outcome::Failed).map(|(check, _)| *check).collect();
    let mut checks: Vec<EnvironmentCheck> = report.findings.iter().map(|finding| finding.check).collect();
    checks.dedup();
    assert_eq!(failed, checks);
}

/// Moves node from the system to nvm. `loaded`: a terminal has it in `PATH`.
fn with_nvm(folder: &Folder, loaded: bool) {
    folder.remove("usr/bin/node");
    folder.remove("usr/bin/npx");
    folder.file("home/u/.nvm/alias/default", "22\n");
    folder.program(&format!("{}/node", &BIN[1..]), "echo v22.1.0");
    folder.script(&format!("{}/npx", &BIN[1..]), "#!/usr/bin/env node\n");
    if loaded {
        folder.shell(&format!("{BIN}:/usr/bin:/bin"), "/usr/bin:/bin");
    }
}

#[tokio::test]
async fn nothing_is_found_where_nothing_is_wrong() {
    let folder = Folder::healthy("healthy");
    let report = examine(folder.world()).await;
    found(&report, &[]);
    assert!(report.is_healthy());
    let parts: Vec<EnvironmentPart> = report.steps.iter().map(|step| step.part).collect();
    assert_eq!(parts, EnvironmentPart::ALL);
    let checks: Vec<EnvironmentCheck> = report.checks.iter().map(|(check, _)| *check).collect();
    assert_eq!(checks, EnvironmentCheck::ALL);
    let not_run: Vec<(EnvironmentCheck, Outcome)> =
        report.checks.iter().filter(|(_, how)| *how != Outcome::Passed).copied().collect();
    let proxy = Outcome::NotRun("no proxy variable is set");
    assert_eq!(
        not_run,
        [
            (EnvironmentCheck::ProxyForm, proxy),
            (EnvironmentCheck::ProxyAgreement, proxy),
            (EnvironmentCheck::ProxyAnswers, proxy),
            (EnvironmentCheck::ProxyLocalhost, proxy),
            (EnvironmentCheck::Interception, Outcome::NotRun("needs a target")),
        ]
    );
    assert_eq!(
        report.steps[1].detail,
        "node 22.1.0, npx 22.1.0, uvx 0.8.2; not found: npm, python3, uv, docker, deno, bun"
    );
    assert_eq!(report.notes, Vec::<String>::new());
    for (place, check) in EnvironmentCheck::ALL.into_iter().enumerate() {
        assert_eq!(check as usize, place);
    }
    assert!(EnvironmentCheck::ALL.is_sorted_by_key(|check| check.part()));
}

#[tokio::test]
async fn faults_of_path_and_of_version_managers_are_distinguished() {
    // This process is started by a service of the desktop, and only terminals load nvm.
    let folder = Folder::healthy("nvm-here");
    with_nvm(&folder, true);
    let report = examine(folder.world()).await;
    found(&report, &["not-found-here"]);
    let finding = &report.findings[0];
    assert_eq!(
        finding.seen,
        format!("node and npx are found by your login shell ({BIN}/node, through nvm), but not from here")
    );
    assert!(
        finding.advice.starts_with(&format!("write the absolute path, {BIN}/node, ")),
        "{}",
        finding.advice
    );

    // This process runs in a terminal, and a client from the menu does not find node.
    let here = folder.world().with_variable("PATH", format!("{BIN}:/usr/bin:/bin"));
    let report = examine(here.clone()).await;
    found(&report, &["not-found-on-desktop"]);
    assert!(report.findings[0].seen.contains("not by a desktop session"), "{}", report.findings[0].seen);
    assert_eq!(report.notes.len(), 2, "services and cron: {:?}", report.notes);

    // Without a desktop that is no fault.
    folder.remove("usr/share/wayland-sessions/gnome.desktop");
    found(&examine(here).await, &[]);

    // A shell that fails is no fault.
    let folder = Folder::healthy("nvm-unknown");
    with_nvm(&folder, true);
    folder.program("bin/bash", "echo 'no such theme' >&2; exit 3");
    let report = examine(folder.world().with_variable("PATH", format!("{BIN}:/usr/bin:/bin"))).await;
    found(&report, &[]);
    let note =
        "the PATH of a desktop session is unknown: /bin/bash -lc ended with exit code 3: no such theme";
    assert!(report.notes.iter().any(|known| known == note), "{:?}", report.notes);
    let not_run = Outcome::NotRun("the PATH of your login shell is unknown");
    assert!(report.checks.contains(&(EnvironmentCheck::PathHere, not_run)), "{:?}", report.checks);
    // A version manager that has the program is still found.
    let report = examine(folder.world()).await;
    found(&report, &["manager-not-loaded"]);
    assert!(
        report.findings[0].seen.ends_with("but PATH here does not contain it"),
        "{}",
        report.findings[0].seen
    );

    // nvm is installed, and no context loads it.
    let folder = Folder::healthy("nvm-nowhere");
    with_nvm(&folder, false);
    let report = examine(folder.world()).await;
    found(&report, &["manager-not-loaded"]);
    assert!(
        report.findings[0].seen.starts_with("node and npx are installed through nvm"),
        "{}",
        report.findings[0].seen
    );

    // The version in PATH was removed.
    let folder = Folder::healthy("nvm-gone");
    with_nvm(&folder, false);
    fs::remove_dir_all(folder.path().join(&BIN[1..])).unwrap();
    found(
        &examine(folder.world().with_variable("PATH", format!("{BIN}:/usr/bin"))).await,
        &["shim-folder-gone"],
    );

    let folder = Folder::healthy("no-path");
    found(&examine(folder.world().without_variable("PATH")).await, &["path-missing"]);
    found(&examine(folder.world().with_variable("PATH", "/nowhere:/not/there")).await, &["path-missing"]);
}

#[tokio::test]
async fn shims_without_a_program_are_found_with_their_manager() {
    let node = "node (";
    for (manager, shim, more, says) in [
        ("volta", "home/u/.volta/bin/node", None, node),
        ("asdf", "home/u/.asdf/shims/node", Some(("home/u/.asdf/installs/nodejs/20.1.0/x", "")), node),
        (
            "mise",
            "home/u/.local/share/mise/shims/node",
            Some(("home/u/.local/share/mise/installs/go/1/x", "")),
            node,
        ),
        ("pyenv", "home/u/.pyenv/shims/python3", None, "python3 ("),
    ] {
        let folder = Folder::healthy("shim");
        folder.script(shim, "#!/bin/sh\n# asdf-plugin: nodejs 18.12.0\nexit 126\n");
        if let Some((path, text)) = more {
            folder.file(path, text);
        }
        let bin = format!("/{}", shim.rsplit_once('/').unwrap().0);
        // Every context finds it, so that there is no other fault.
        let path = format!("{bin}:/usr/bin:/bin");
        folder.shell(&path, &path);
        let world = folder.world().with_variable("PATH", format!("{bin}:/usr/bin:/bin"));
        let report = examine(world).await;
        found(&report, &["shim-hollow"]);
        let finding = &report.findings[0];
        assert!(
            finding.seen.starts_with(says) && finding.seen.contains(&format!("a shim of {manager}")),
            "{}",
            finding.seen
        );
        assert!(finding.advice.contains(manager), "{}", finding.advice);
    }
    let folder = Folder::healthy("dangling");
    folder.remove("usr/bin/uvx");
    symlink("/opt/uv-0.1/uvx", folder.path().join("usr/bin/uvx")).unwrap();
    let report = examine(folder.world()).await;
    found(&report, &["shim-dangling"]);
    assert!(report.findings[0].seen.contains("/opt/uv-0.1/uvx"), "{}", report.findings[0].seen);
}

#[tokio::test]
async fn runtimes_that_do_not_run_are_found() {
    let folder = Folder::healthy("broken");
    folder.program("usr/bin/node", "echo 'GLIBC_2.99 not found' >&2; exit 1");
    let report = examine(folder.world()).await;
    // npx is run by node, and has no fault of its own.
    found(&report, &["runtime-broken"]);
    assert!(
        report.findings[0].seen.contains("exit code 1, GLIBC_2.99 not found"),
        "{}",
        report.findings[0].seen
    );

    let folder = Folder::healthy("interpreter");
    folder.remove("usr/bin/node");
    let report = examine(folder.world()).await;
    found(&report, &["interpreter-missing"]);
    assert!(
        report.findings[0].seen.starts_with("npx (/usr/bin/npx) needs node"),
        "{}",
        report.findings[0].seen
    );

    let folder = Folder::healthy("old");
    folder.program("usr/bin/node", "echo v16.20.2");
    found(&examine(folder.world()).await, &["node-old"]);

    let folder = Folder::healthy("silent");
    for name in ["node", "npx"] {
        folder.remove(&format!("usr/bin/{name}"));
    }
    folder.program("usr/bin/uvx", "while :; do :; done");
    let report =
        EnvironmentDoctor::new(folder.world()).version_timeout(Duration::from_millis(200)).examine().await;
    found(&report, &["runtime-silent"]);
}

#[tokio::test]
async fn caches_and_resources_that_cannot_be_used_are_found() {
    let open = |folder: &Folder, path: &str| {
        fs::create_dir_all(folder.path().join(path)).unwrap();
        fs::set_permissions(folder.path().join(path), fs::Permissions::from_mode(0o777)).unwrap();
    };
    // The user of the world may write to the home, but not to the files in it, which belong to the user of this test.
    let ours = rustix::process::geteuid().as_raw();
    let other = |folder: &Folder| {
        ["home/u", "tmp", "home/u/.cache"].iter().for_each(|path| open(folder, path));
        World { user: ours + 1, ..folder.world() }
    };
    let expected = if ours == 0 { "cache-of-root" } else { "cache-unwritable" };
    for path in ["home/u/.npm/x", "home/u/.cache/uv/x"] {
        let folder = Folder::healthy("cache");
        folder.file(path, "");
        let report = examine(other(&folder)).await;
        found(&report, &[expected]);
        assert!(report.findings[0].advice.starts_with("sudo chown -R"), "{}", report.findings[0].advice);
    }
    // A folder that `sudo npm` left in the cache.
    let folder = Folder::healthy("cache-inside");
    folder.file("home/u/.npm/_cacache/x", "");
    open(&folder, "home/u/.npm");
    found(&examine(other(&folder)).await, &[expected]);
    let folder = Folder::healthy("cache-healthy");
    found(&examine(other(&folder)).await, &[]);
    // A cache that a setting names.
    folder.file("home/u/.npmrc", "registry=https://x\ncache=${HOME}/file\n");
    folder.file("home/u/file", "");
    found(&examine(folder.world()).await, &["cache-no-folder"]);
    found(&examine(folder.world().with_variable("npm_config_cache", "/tmp/npm")).await, &[]);

    let folder = Folder::healthy("room");
    found(&examine(folder.world().without_variable("HOME")).await, &["home-missing"]);
    found(&examine(folder.world().with_variable("HOME", "/home/nobody")).await, &["home-missing"]);
    found(&examine(folder.world().with_variable("TMPDIR", "/nowhere")).await, &["temporary-unusable"]);
    for (open_files, ids) in [(Some(64), &["open-files-few"][..]), (None, &[])] {
        found(&examine(World { open_files, ..folder.world() }).await, ids);
    }
}

#[tokio::test]
async fn faults_of_proxies_contain_no_secrets() {
    let folder = Folder::healthy("proxy");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let world = |value: String| {
        folder.world().with_variable("https_proxy", value).with_variable("NO_PROXY", "localhost,127.0.0.1")
    };
    let secret = "hunter2hunter2";
    found(&examine(world(format!("http://me:{secret}@127.0.0.1:{port}"))).await, &[]);
    // No program listens on port 1.
    for (value, id) in [
        (format!("http://me:{secret}@127.0.0.1:1"), "proxy-unreachable"),
        (format!("htp://me:{secret}@host:1"), "proxy-malformed"),
        (format!("http://host:{secret}"), "proxy-malformed"),
    ] {
        let report = examine(world(value)).await;
        found(&report, &[id]);
        assert!(!format!("{report:?}").contains(secret), "{report:?}");
    }
    let resolve = |name: String| match &*name {
        "localhost" => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
        _ => Err(io::Error::other("no such host")),
    };
    let unknown = World {
        resolve: Arc::new(move |name| Box::pin(std::future::ready(resolve(name)))),
        ..world("http://proxy.corp:3128".into())
    };
    let report = examine(unknown).await;
    found(&report, &["proxy-unreachable"]);
    assert!(
        report.findings[0].seen.contains("cannot be resolved: no such host"),
        "{}",
        report.findings[0].seen
    );
    let good = format!("http://127.0.0.1:{port}");
    let differs = world(good.clone()).with_variable("HTTPS_PROXY", format!("http://127.0.0.1:{port}/"));
    found(&examine(differs).await, &["proxy-disagreement"]);
    let local = folder.world().with_variable("http_proxy", good);
    found(&examine(local).await, &["proxy-for-localhost"]);
}

#[tokio::test]
async fn variables_without_certificates_are_found() {
    let folder = Folder::healthy("certificates");
    folder.file("home/u/ca.pem", CERTIFICATE);
    folder.file("home/u/empty.pem", "");
    folder.file("home/u/key.pem", "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n");
    folder.file("home/u/ca.der", b"0\x82\x01\x00");
    folder.file("home/u/folder/readme", "");
    for variable in ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"] {
        found(&examine(folder.world().with_variable(variable, "/home/u/ca.pem")).await, &[]);
    }
    for (value, says) in [
        ("/home/u/nowhere.pem", "does not exist"),
        ("/home/u/empty.pem", "contains no certificate"),
        ("/home/u/key.pem", "contains no certificate"),
        ("/home/u/ca.der", "may be DER"),
        ("/home/u/folder", "is a folder without certificates"),
    ] {
        let report = examine(folder.world().with_variable("NODE_EXTRA_CA_CERTS", value)).await;
        found(&report, &["certificates-named-wrong"]);
        assert!(report.findings[0].seen.contains(says), "{}", report.findings[0].seen);
    }
    found(&examine(folder.world().with_variable("SSL_CERT_DIR", "/nowhere:/etc/ssl/certs")).await, &[]);
    found(
        &examine(folder.world().with_variable("SSL_CERT_DIR", "/nowhere:/tmp")).await,
        &["certificates-named-wrong"],
    );
    folder.remove("etc/ssl/certs/ca-certificates.crt");
    found(&examine(folder.world()).await, &["no-authorities"]);
    found(&examine(folder.world().with_variable("SSL_CERT_FILE", "/home/u/ca.pem")).await, &[]);
}

#[tokio::test]
async fn faults_of_loopback_and_localhost_are_found() {
    let folder = Folder::healthy("loopback");
    let failing = |v6: bool, kind: io::ErrorKind| World {
        loopback: Arc::new(move |address| {
            let outcome = if address.is_ipv6() == v6 { Err(kind.into()) } else { Ok(()) };
            Box::pin(std::future::ready(outcome))
        }),
        ..folder.world()
    };
    let absent = |v6| failing(v6, io::ErrorKind::AddrNotAvailable);
    // A machine without IPv6 has no fault.
    let report = examine(absent(true)).await;
    found(&report, &[]);
    assert!(
        report.checks.contains(&(EnvironmentCheck::LoopbackV6, Outcome::NotRun("this machine has no IPv6")))
    );
    let both = vec![IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let named = |world: World, addresses: Vec<IpAddr>| resolving(world, move || Ok(addresses.clone()));
    found(&examine(named(absent(false), both.clone())).await, &["loopback-ipv4"]);
    found(&examine(failing(true, io::ErrorKind::ConnectionRefused)).await, &["loopback-ipv6"]);

    let report = examine(named(folder.world(), both.clone())).await;
    found(&report, &[]);
    assert!(report.notes[0].contains("IPv6 first"), "{:?}", report.notes);
    found(&examine(named(absent(true), both[..1].to_vec())).await, &["localhost-unreachable"]);
    found(
        &examine(named(folder.world(), vec![IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1))])).await,
        &["localhost-elsewhere"],
    );
    found(&examine(named(folder.world(), Vec::new())).await, &["localhost-unknown"]);
    let unknown = resolving(folder.world(), || Err(io::Error::other("no such name")));
    found(&examine(unknown).await, &["localhost-unknown"]);
}

#[tokio::test]
async fn a_wrong_clock_is_found() {
    let folder = Folder::healthy("clock");
    let at = Duration::from_secs;
    let log = folder.file("var/log/syslog", "");
    let status = folder.file("var/lib/dpkg/status", "");
    // Files get the time of the world; their folders keep the real one, which is earlier.
    for file in [&log, &status] {
        File::options().write(true).open(file).unwrap().set_modified(UNIX_EPOCH + at(1_800_000_000)).unwrap();
    }
    found(&examine(World { now: at(1_800_000_000), ..folder.world() }).await, &[]);
    found(&examine(World { now: at(3600), ..folder.world() }).await, &["clock-wrong"]);
    let report = examine(World { now: at(1_767_300_000), ..folder.world() }).await;
    found(&report, &["clock-behind"]);
    assert!(report.findings[0].seen.contains("2026"), "{}", report.findings[0].seen);
}

#[tokio::test]
async fn only_the_faults_that_affect_a_target_are_reported() {
    let folder = Folder::healthy("about");
    with_nvm(&folder, true);
    let doctor = EnvironmentDoctor::new(folder.world());
    let about = doctor.about_program("npx").await;
    assert_eq!(about.len(), 1);
    assert_eq!(about[0].id, "not-found-here");
    assert!(about[0].advice.contains(&format!("{BIN}/npx")), "{}", about[0].advice);
    assert!(doctor.about_program("uvx").await.is_empty());
    // The whole path of npx does not help: node is still not found.
    let about = doctor.about_program(&format!("{BIN}/npx")).await;
    assert!(about[0].seen.starts_with("node is found by your login shell"), "{}", about[0].seen);
    let command = ChildCommand::new("npx").env("PATH", format!("{BIN}:/bin"));
    assert!(doctor.about_command(&command).await.is_empty());
    assert_eq!(doctor.about_command(&ChildCommand::new("npx").env("PATH", "/bin")).await.len(), 1);
    // A relative path counts from the working directory of the command.
    let elsewhere =
        doctor.about_command(&ChildCommand::new("./npx").current_dir(BIN).env("PATH", "/bin")).await;
    assert!(elsewhere[0].seen.starts_with("node is found by your login shell"), "{}", elsewhere[0].seen);
    assert!(doctor.about_command(&ChildCommand::new("./npx").current_dir("/bin")).await.is_empty());
    assert!(doctor.about_program("no-such-program").await.is_empty());

    let world = folder.world().with_variable("https_proxy", "http://127.0.0.1:1");
    let doctor = EnvironmentDoctor::new(world.clone());
    let ids = |findings: Vec<super::super::EnvironmentFinding>| -> Vec<&'static str> {
        findings.iter().map(|finding| finding.id).collect()
    };
    assert_eq!(ids(doctor.about_host("example.org", true).await), ["proxy-unreachable"]);
    assert!(doctor.about_host("example.org", false).await.is_empty());
    assert!(doctor.about_host("[::1]", true).await.is_empty());
    let excepted = EnvironmentDoctor::new(world.with_variable("no_proxy", ".example.org"));
    assert!(excepted.about_host("a.example.org", true).await.is_empty());

    // Variables of other programs, and of the other scheme, do not affect it.
    let both = folder
        .world()
        .with_variable("https_proxy", "http://127.0.0.1:1")
        .with_variable("http_proxy", "htp://x");
    assert_eq!(
        ids(EnvironmentDoctor::new(both.clone()).about_host("example.org", true).await),
        ["proxy-unreachable"]
    );
    assert_eq!(ids(EnvironmentDoctor::new(both).about_host("example.org", false).await), ["proxy-malformed"]);
    let others =
        folder.world().with_variable("REQUESTS_CA_BUNDLE", "/no").with_variable("NODE_EXTRA_CA_CERTS", "/no");
    assert!(EnvironmentDoctor::new(others.clone()).about_host("example.org", true).await.is_empty());
    let ours = EnvironmentDoctor::new(others.with_variable("SSL_CERT_FILE", "/no"));
    assert_eq!(ids(ours.about_host("example.org", true).await), ["certificates-named-wrong"]);
}

#[tokio::test]
async fn a_warning_is_not_taken_for_a_version() {
    let folder = Folder::healthy("warns");
    let warning = "Warning: Ignoring extra certs from /no, load failed: error:80000002:system library";
    folder.program("usr/bin/node", &format!("echo '{warning}' >&2; echo v22.1.0"));
    let report = examine(folder.world()).await;
    found(&report, &[]);
    let runtimes = &report.steps.iter().find(|step| step.part == EnvironmentPart::Runtimes).unwrap().detail;
    assert!(runtimes.starts_with("node 22.1.0, npx 22.1.0"), "{runtimes}");
}

#[tokio::test]
async fn a_part_that_was_not_run_says_why() {
    let folder = Folder::healthy("homeless");
    let report = examine(folder.world().without_variable("HOME")).await;
    let caches = report.steps.iter().find(|step| step.part == EnvironmentPart::Caches).unwrap();
    assert_eq!(caches.detail, "there is no home folder");
}

#[tokio::test]
async fn the_year_is_right_on_its_first_and_its_last_day() {
    let folder = Folder::healthy("year");
    for (seconds, year) in [(915_148_800, "1999"), (946_684_799, "1999"), (946_684_800, "2000")] {
        let report = examine(World { now: Duration::from_secs(seconds), ..folder.world() }).await;
        found(&report, &["clock-wrong"]);
        assert!(report.findings[0].seen.ends_with(year), "{}", report.findings[0].seen);
    }
}

#[tokio::test]
async fn a_proxy_that_requires_a_password_is_found() {
    let folder = Folder::healthy("proxy-407");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 1024];
            let count = stream.read(&mut asked).await.unwrap_or(0);
            let asked = String::from_utf8_lossy(&asked[..count]).into_owned();
            // me:hunter2hunter2
            let status = match asked.contains("Proxy-Authorization: Basic bWU6aHVudGVyMmh1bnRlcjI=\r\n") {
                true => "502 Bad Gateway",
                false => "407 Proxy Authentication Required",
            };
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await;
        }
    });
    let world = |user: &str| {
        let value = format!("http://{user}127.0.0.1:{port}");
        folder.world().with_variable("https_proxy", value).with_variable("NO_PROXY", "localhost,127.0.0.1")
    };
    found(&examine(world("me:hunter2hunter2@")).await, &[]);
    let report = examine(world("")).await;
    found(&report, &["proxy-authorization"]);
    assert!(report.findings[0].advice.contains("USER:PASSWORD"), "{}", report.findings[0].advice);
    let report = examine(world("me:wrong-secret@")).await;
    found(&report, &["proxy-authorization"]);
    assert!(report.findings[0].seen.contains("rejects the user"), "{}", report.findings[0].seen);
    assert!(!format!("{report:?}").contains("wrong-secret"), "{report:?}");
}

#[tokio::test]
async fn a_folder_is_advised_once() {
    let folder = Folder::healthy("once");
    let world = folder.world().with_variable("PATH", "/sbin");
    folder.file("sbin/x", "");
    let report = examine(world).await;
    let finding = report.findings.iter().find(|finding| finding.id == "not-found-here").unwrap();
    assert!(finding.advice.contains("-e PATH=/usr/bin:/usr/local/bin:/bin "), "{}", finding.advice);
}

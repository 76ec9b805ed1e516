//! Test of a listener without file descriptors. It is alone in its program, because it sets the limit of the process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use mcpjoin_test_support as support;
use std::time::{Duration, Instant};

use mcpjoin::transport::Listener;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpSocket;

#[test]
fn without_file_descriptors_no_connection_is_accepted_and_nothing_spins() {
    support::run(async {
        let mut listener = Listener::tcp("127.0.0.1:0").await.unwrap();
        let address = listener.address().socket_addr().unwrap();
        let handle = listener.handle();
        let client = TcpSocket::new_v4().unwrap();
        let usual = getrlimit(Resource::Nofile);
        // The system assigns the lowest free descriptor, so with that number as the limit there is none.
        let lowest = std::os::fd::AsRawFd::as_raw_fd(&std::fs::File::open("/dev/null").unwrap());
        let none = Rlimit { current: Some(u64::try_from(lowest).unwrap()), maximum: usual.maximum };
        setrlimit(Resource::Nofile, none).unwrap();
        let _client = client.connect(address).await.unwrap();
        let start = Instant::now();
        let mut tries = 0;
        let link = loop {
            // The test drops and repeats the accept all the time: that must not avoid the pause.
            tokio::select! {
                biased;
                link = listener.accept() => break link,
                () = tokio::task::yield_now() => tries += 1,
            }
            if handle.failed() == 3 {
                setrlimit(Resource::Nofile, usual).unwrap();
            }
        };
        // The pauses are 50, 100 and 200 ms.
        assert!(start.elapsed() >= Duration::from_millis(350), "{:?}", start.elapsed());
        assert!(tries > 3);
        assert_eq!((handle.failed(), handle.accepted(), handle.open()), (3, 1, 1));
        drop(link);
    });
}

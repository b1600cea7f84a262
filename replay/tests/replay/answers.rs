//! What counts as an answer.

use super::support::{Mood, Server, turn};
use super::{Replayed, replay};
use truetape_schemas::capture::Outcome;
use truetape_schemas::set::Turn;

const PAGES: [&str; 2] = ["<html>Please log in</html>", r#"{"detail":"not here"}"#];

async fn against(page: &'static str, flags: &[&str]) -> (Server, Replayed) {
    let server = Server::start(Mood::Page(page), 0).await;
    let turns: Vec<Turn> = (0..40).map(|i| turn(i, &format!("s{i}"), 0)).collect();
    let replayed = replay(&turns, &server.url(), flags).await;
    (server, replayed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_with_status_200_is_a_failure_and_breaks_the_run_off() {
    for page in PAGES {
        let flags = ["--no-probe", "--lateness-p99-max", "1h"];
        let (_server, replayed) = against(page, &flags).await;
        assert_eq!(replayed.exit_code(), 69, "{page}");
        assert_eq!(replayed.run().account.answered, 0);
        for row in replayed.rows().iter().filter(|row| row.sent_us.is_some()) {
            assert_eq!((row.status, row.outcome), (Some(200), Some(Outcome::Error)));
            assert_eq!(row.error_code.as_deref(), Some("not_an_answer"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_pages_is_found_out_before_the_run() {
    for page in PAGES {
        let (server, replayed) = against(page, &[]).await;
        let message = replayed.result.as_ref().unwrap_err().to_string();
        assert!(message.contains("no answer to an inference"), "{message}");
        assert_eq!(replayed.exit_code(), 69);
        assert!(!replayed.out().try_exists().unwrap());
        assert!(server.measured().is_empty());
    }
}

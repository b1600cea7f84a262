//! How streams and connections of HTTP/2 end, and what ends with them.

use crate::stream::{AT_ONCE, Scene, head, post, reset_of, send, soon, whole};
use crate::support::Meter;
use h2::Reason;
use http::{Response, StatusCode};
use std::time::Instant;
use truetape_schemas::capture::Outcome;

/// Waiting for the head, in the middle of the stream, in the middle of the upload.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_resets_cancels_the_upstream_in_every_phase_with_its_code() {
    let mut scene = Scene::new("h2-cancel", &[]).await;
    let meter = Meter::start();
    for (phase, reason) in [
        ("waiting", Reason::CANCEL),
        ("streaming", Reason::CANCEL),
        ("uploading", Reason::CANCEL),
        ("waiting", Reason::INTERNAL_ERROR),
        ("streaming", Reason::ENHANCE_YOUR_CALM),
        ("uploading", Reason::INTERNAL_ERROR),
    ] {
        let (answer, mut upload) = scene.open(post(&[]), phase != "uploading").await;
        let (request, mut respond) = scene.taken().await;
        let mut body = request.into_body();
        let down = match phase {
            "waiting" => None,
            "streaming" => {
                let mut down = head(&mut respond, 200);
                send(&mut down, "data: 1\n\n", false).await;
                let mut answer = soon("the head", answer).await.unwrap();
                soon("an event", answer.body_mut().data())
                    .await
                    .unwrap()
                    .unwrap();
                // The answer is let go of after the reset.
                Some((down, Some(answer)))
            }
            _ => {
                send(&mut upload, "{\"model\"", false).await;
                soon("the upload", body.data()).await.unwrap().unwrap();
                None
            }
        };
        let reset = Instant::now();
        upload.send_reset(reason);
        let seen = match down {
            Some((mut down, _answer)) => reset_of(&mut down).await,
            None => soon("a reset", std::future::poll_fn(|cx| respond.poll_reset(cx)))
                .await
                .unwrap(),
        };
        let took = reset.elapsed();
        assert_eq!(seen, reason, "{phase}");
        assert!(took <= meter.widen(AT_ONCE), "{phase}: {took:?}");
    }
    let (rows, _) = scene.finish().await;
    let aborted = rows
        .iter()
        .filter(|row| row.outcome == Outcome::ClientAborted);
    assert_eq!(aborted.count(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_takes_all_its_streams_with_it() {
    let mut scene = Scene::new("h2-gone", &[]).await;
    let (_first, _) = scene.open(post(&[]), true).await;
    let (_second, _) = scene.open(post(&[]), true).await;
    let (_, mut one) = scene.taken().await;
    let (_, mut two) = scene.taken().await;
    let mut down = head(&mut two, 200);
    send(&mut down, "data: 1\n\n", false).await;
    let mut upstream = scene.connections.recv().await.unwrap();
    let meter = Meter::start();
    let gone = Instant::now();
    scene.connection.abort_all();
    // Without a client the upstream's connection ends, as its own would have.
    drop(soon("the end", std::future::poll_fn(|cx| one.poll_reset(cx))).await);
    soon("the connection's end", upstream.join_next()).await;
    assert!(
        gone.elapsed() <= meter.widen(AT_ONCE),
        "{:?}",
        gone.elapsed()
    );
    let (rows, ledger) = scene.finish().await;
    assert_eq!((rows.len(), ledger.offered), (2, 2));
    assert!(
        rows.iter().all(|row| row.outcome == Outcome::ClientAborted),
        "{rows:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_by_the_upstream_reaches_the_client_after_what_came_before_it() {
    let mut scene = Scene::new("h2-reset", &[]).await;
    for reason in [
        Reason::CANCEL,
        Reason::NO_ERROR,
        Reason::INTERNAL_ERROR,
        Reason::REFUSED_STREAM,
    ] {
        let (answer, _) = scene.open(post(&[]), true).await;
        let (_, mut respond) = scene.taken().await;
        respond.send_reset(reason);
        let error = soon("the answer", answer).await.unwrap_err();
        assert_eq!((error.reason(), error.is_reset()), (Some(reason), true));

        let (answer, _) = scene.open(post(&[]), true).await;
        let (_, mut respond) = scene.taken().await;
        let mut down = head(&mut respond, 200);
        let sent = vec![b'x'; 20_000];
        send(&mut down, sent.clone(), false).await;
        let answer = soon("the head", answer).await.unwrap();
        let reading = whole(answer.into_body());
        // h2 drops what it has not written when it resets.
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        down.send_reset(reason);
        let seen = reading.await;
        assert_eq!(seen.bytes, sent);
        assert_eq!(seen.error.unwrap().reason(), Some(reason));
    }
    let (rows, _) = scene.finish().await;
    assert_eq!(rows.len(), 8);
    assert!(
        rows.iter()
            .all(|row| row.outcome == Outcome::Truncated || row.outcome == Outcome::Error),
        "{rows:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_the_upstream_loses_is_no_clean_end() {
    let mut scene = Scene::new("h2-lost", &[]).await;
    let (waiting, _) = scene.open(post(&[]), true).await;
    let (_, _respond) = scene.taken().await;
    let (streaming, _) = scene.open(post(&[]), true).await;
    let (_, mut respond) = scene.taken().await;
    let mut down = head(&mut respond, 200);
    send(&mut down, "data: 1\n\n", false).await;
    let mut answer = soon("the head", streaming).await.unwrap();
    let first = soon("an event", answer.body_mut().data())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first, "data: 1\n\n");
    drop(scene.connections.recv().await.unwrap());
    assert!(soon("the answer", waiting).await.is_err());
    assert!(whole(answer.into_body()).await.error.is_some());
    // The client is told to take another connection, as it would have been.
    soon("the end", scene.connection.join_next()).await;
    let (rows, _) = scene.finish().await;
    assert!(rows.iter().any(|row| row.outcome == Outcome::Truncated));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_before_the_end_of_the_upload_passes_and_stops_it() {
    let mut scene = Scene::new("h2-early", &[]).await;
    let (answer, mut upload) = scene.open(post(&[]), false).await;
    let (request, mut respond) = scene.taken().await;
    send(&mut upload, vec![b'x'; 30_000], false).await;
    let mut down = head(&mut respond, 413);
    send(&mut down, "too large", true).await;
    // Nobody reads the rest: h2 says so with `NO_ERROR`.
    drop((request, respond, down));
    let answer = soon("the answer", answer).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let seen = whole(answer.into_body()).await;
    assert_eq!(seen.bytes, b"too large");
    assert_eq!(reset_of(&mut upload).await, Reason::NO_ERROR);
    let (rows, _) = scene.finish().await;
    assert_eq!((rows.len(), rows[0].status), (1, Some(413)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_goes_on_after_the_whole_answer() {
    let mut scene = Scene::new("h2-late", &[]).await;
    let (answer, mut upload) = scene.open(post(&[]), false).await;
    let (request, mut respond) = scene.taken().await;
    let mut down = head(&mut respond, 200);
    send(&mut down, "{}", true).await;
    let answer = soon("the answer", answer).await.unwrap();
    assert_eq!(whole(answer.into_body()).await.bytes, b"{}");
    let sending = async {
        send(&mut upload, vec![b'x'; 200_000], true).await;
    };
    let (_, seen) = tokio::join!(sending, whole(request.into_body()));
    assert_eq!((seen.bytes.len(), seen.error.is_none()), (200_000, true));
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_the_client_resets_after_the_whole_answer_is_reset_with_its_code() {
    let mut scene = Scene::new("h2-late-reset", &[]).await;
    for reason in [Reason::ENHANCE_YOUR_CALM, Reason::INTERNAL_ERROR] {
        let (answer, mut upload) = scene.open(post(&[]), false).await;
        let (request, mut respond) = scene.taken().await;
        let mut body = request.into_body();
        send(&mut upload, "{\"model\"", false).await;
        soon("the upload", body.data()).await.unwrap().unwrap();
        let mut down = head(&mut respond, 200);
        send(&mut down, "{}", true).await;
        let answer = soon("the answer", answer).await.unwrap();
        assert_eq!(whole(answer.into_body()).await.bytes, b"{}");
        upload.send_reset(reason);
        let cut = soon("a reset", body.data()).await.unwrap().unwrap_err();
        assert_eq!(cut.reason(), Some(reason));
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_says_go_away_and_lets_streams_end() {
    let mut scene = Scene::new("h2-drain", &[]).await;
    let (answer, _) = scene.open(post(&[]), true).await;
    let (_, mut respond) = scene.taken().await;
    let mut down = head(&mut respond, 200);
    send(&mut down, "data: 1\n\n", false).await;
    let answer = soon("the head", answer).await.unwrap();
    scene.sidecar.process.terminate();
    scene.sidecar.process.event("draining");
    // A stream that the client opens before it has read that is still served, or refused as such.
    let told = soon("the order to go away", async {
        loop {
            let Ok(mut ready) = scene.client.clone().ready().await else {
                break;
            };
            let Ok((refused, _)) = ready.send_request(post(&[]), true) else {
                break;
            };
            let waited = std::time::Duration::from_millis(10);
            if let Ok(Err(error)) = tokio::time::timeout(waited, refused).await {
                assert!(error.is_go_away(), "{error}");
                break;
            }
        }
    });
    told.await;
    send(&mut down, "data: 2\n\n", true).await;
    let seen = whole(answer.into_body()).await;
    assert_eq!(seen.bytes, b"data: 1\n\ndata: 2\n\n");
    assert!(seen.error.is_none(), "{seen:?}");
    let Scene {
        sidecar, client, ..
    } = scene;
    drop(client);
    let ended = tokio::task::spawn_blocking(move || sidecar.process.wait(crate::support::SOON));
    ended.await.unwrap().expect_code(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_that_goes_away_is_replaced_for_the_next_stream() {
    let mut scene = Scene::new("h2-goaway", &[]).await;
    let (answer, _) = scene.open(post(&[]), true).await;
    let (_, mut respond) = scene.taken().await;
    respond.send_response(Response::new(()), true).unwrap();
    assert_eq!(soon("the answer", answer).await.unwrap().status(), 200);
    // The upstream closes an idle connection: the client's is closed too.
    drop(scene.connections.recv().await.unwrap());
    soon("the end", scene.connection.join_next()).await;
    let builder = h2::client::Builder::new();
    scene.client =
        crate::stream::connect(scene.sidecar.listen, &builder, &mut scene.connection).await;
    let (answer, _) = scene.open(post(&[]), true).await;
    let (_, mut respond) = scene.taken().await;
    respond.send_response(Response::new(()), true).unwrap();
    assert_eq!(soon("the answer", answer).await.unwrap().status(), 200);
    scene.finish().await;
}

//! The source of a choice: what the stages before know of every turn.

use super::super::Prepared;
use super::super::row::Row;
use crate::select::source::Source;
use std::collections::HashMap;

/// What separates permanent random numbers from other hashes.
const CONTEXT: &str = "truetape 2026 permanent random number v1";

/// Makes the source of a choice.
pub(super) fn of(prepared: &Prepared, seed: u64) -> Source<'_> {
    let rows = &prepared.ingested.rows;
    let mut source = Source {
        population: &prepared.population,
        random: random_numbers(prepared, seed),
        replica: replicas(rows),
        kind: kinds(rows),
        by_turns: false,
    };
    source.by_turns = source.tokens_all() == 0;
    source
}

/// By session: a hash of its key and the seed.
fn random_numbers(prepared: &Prepared, seed: u64) -> Vec<u64> {
    let key = blake3::derive_key(CONTEXT, &seed.to_le_bytes());
    let mut numbers = vec![None; prepared.sessions.names.len()];
    for (row, link) in prepared.ingested.rows.iter().zip(&prepared.sessions.links) {
        let Some(number @ None) = numbers.get_mut(link.session as usize) else {
            continue;
        };
        // The client's own key, not what the session is called: that may be keyed.
        let name = row.session_key.as_deref().unwrap_or(&row.exchange_id);
        let digest = blake3::keyed_hash(&key, name.as_bytes());
        let (first, _) = digest.as_bytes().split_at(8);
        *number = Some(first.try_into().map_or(0, u64::from_le_bytes));
    }
    numbers.into_iter().map(Option::unwrap_or_default).collect()
}

/// By turn: the replica that served it; empty where nobody can tell replicas apart.
///
/// Behind one address may be a balancer, so only several addresses are several replicas. Recorders
/// beside their replicas all name the same local address; then the recorder tells.
pub(crate) fn replicas(rows: &[Row]) -> Vec<u16> {
    let mut numbers: HashMap<(&str, &str), u16> = HashMap::new();
    let mut of_row = Vec::with_capacity(rows.len());
    for row in rows {
        let recorder = if is_local(&row.upstream) {
            &*row.proxy_id
        } else {
            ""
        };
        let next = u16::try_from(numbers.len()).unwrap_or(u16::MAX);
        of_row.push(*numbers.entry((&row.upstream, recorder)).or_insert(next));
    }
    let several = of_row.iter().any(|replica| *replica > 0);
    if several { of_row } else { Vec::new() }
}

fn is_local(upstream: &str) -> bool {
    let host = upstream.rsplit_once(':').map_or(upstream, |(host, _)| host);
    let host = host.rsplit_once("//").map_or(host, |(_, host)| host);
    host == "localhost" || host == "[::1]" || host.starts_with("127.")
}

/// By turn: its model, whether it streams, whether it brings tools; empty where all are alike.
fn kinds(rows: &[Row]) -> Vec<u16> {
    let mut numbers: HashMap<(Option<&str>, Option<bool>, bool), u16> = HashMap::new();
    let mut of_row = Vec::with_capacity(rows.len());
    for row in rows {
        let tools = row.params.as_ref().and_then(|params| params.tool_count);
        let kind = (
            row.model.as_deref(),
            row.stream,
            tools.is_some_and(|tools| tools > 0),
        );
        let next = u16::try_from(numbers.len()).unwrap_or(u16::MAX);
        of_row.push(*numbers.entry(kind).or_insert(next));
    }
    if numbers.len() > 1 {
        of_row
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::is_local;

    #[test]
    fn addresses_of_the_same_machine_are_local() {
        for local in [
            "127.0.0.1:8000",
            "http://localhost:80",
            "[::1]:9",
            "http://127.0.0.2:1",
        ] {
            assert!(is_local(local), "{local}");
        }
        for other in ["10.0.0.1:8000", "http://vllm:8000", "localhost.example:1"] {
            assert!(!is_local(other), "{other}");
        }
    }
}

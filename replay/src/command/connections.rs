//! Which connections a run will need.

use crate::cli::{Connections, ReplayArgs};
use crate::plan::Planned;
use std::collections::{HashMap, HashSet};

/// How many requests each recorded connection carries.
pub(super) fn carried(dispatches: &[Planned]) -> HashMap<i64, usize> {
    let mut carried = HashMap::new();
    for carrier in dispatches.iter().filter_map(|planned| planned.carrier) {
        *carried.entry(carrier.conn).or_default() += 1;
    }
    carried
}

/// How many connections are worth opening before time zero.
pub(super) fn warm(args: &ReplayArgs, dispatches: &[Planned]) -> usize {
    let useful = match args.connections {
        Connections::Fresh => 0,
        Connections::Pool => dispatches.len(),
        Connections::Recorded => open_before(dispatches),
    };
    args.warm_connections.min(useful)
}

/// Connections that production had open before their first turn that is sent, and turns of which
/// nothing is known, which share a pool.
fn open_before(dispatches: &[Planned]) -> usize {
    let mut seen = HashSet::new();
    let is_open = |planned: &&Planned| match planned.carrier {
        Some(carrier) => seen.insert(carrier.conn) && !carrier.is_first,
        None => true,
    };
    dispatches.iter().filter(is_open).count()
}

/// What a user should know.
pub(super) fn finding(asked: Connections, dispatches: &[Planned]) -> Option<String> {
    let unknown = dispatches
        .iter()
        .filter(|planned| planned.carrier.is_none())
        .count();
    let sent = dispatches.len();
    (asked == Connections::Recorded && unknown != 0).then(|| {
        format!(
            "connections: {unknown} of {sent} turns: the set does not say which connection they came over: they \
             share a pool"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Carrier;

    fn planned(conn: Option<(i64, bool)>) -> Planned {
        Planned {
            carrier: conn.map(|(conn, is_first)| Carrier { conn, is_first }),
            ..Planned::default()
        }
    }

    #[test]
    fn a_connection_is_open_before_where_it_had_carried_something() {
        let dispatches = [
            planned(Some((0, true))),
            planned(Some((0, false))),
            planned(Some((1, false))),
            planned(Some((1, false))),
            planned(None),
        ];
        assert_eq!(open_before(&dispatches), 2);
        assert_eq!(carried(&dispatches), HashMap::from([(0, 2), (1, 2)]));
        let finding = finding(Connections::Recorded, &dispatches).unwrap();
        assert!(
            finding.starts_with("connections: 1 of 5 turns"),
            "{finding}"
        );
    }
}

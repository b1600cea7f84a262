//! Sessions as they were replayed, a lane each.

use super::super::svg::escape;
use super::Evidence;
use super::chart::{
    FOOT, Framed, LEFT, Whose, across, frame, missing, names_at, push, svg, upright_tick_at,
};
use super::scale::{Kind, Scale, digits, short};
use crate::dispersion::SECOND_US;
use crate::latency::instant_us;
use std::collections::BTreeMap;
use truetape_schemas::run::Dispatch;

/// Sessions that are shown, spread over the run.
const LANES_MAX: usize = 16;

/// Turns of a session that are shown.
const TURNS_MAX: usize = 40;

/// Height of a lane.
const LANE: f64 = 13.0;

/// Room above the lanes.
const HEAD: f64 = 18.0;

/// Characters of a session's name: it is the client's, and may be of any length.
const NAME_MAX: usize = 40;

const ID: &str = "sessions";
const TITLE: &str = "Sessions";

/// One turn of a lane, in seconds from schedule zero.
struct Shown<'a> {
    dispatch: &'a Dispatch,
    due: f64,
    sent: f64,
    first: Option<f64>,
    end: Option<f64>,
}

impl<'a> Shown<'a> {
    fn of(dispatch: &'a Dispatch) -> Option<Self> {
        let seconds = |us: i64| us as f64 / SECOND_US as f64;
        let at = |offset: Option<i64>| instant_us(dispatch, offset?).map(seconds);
        Some(Self {
            dispatch,
            due: seconds(dispatch.due_us),
            sent: seconds(dispatch.sent_us?),
            first: at(dispatch.first_token_us),
            end: at(dispatch.end_us.or(dispatch.last_token_us)),
        })
    }

    fn last(&self) -> f64 {
        self.end.or(self.first).unwrap_or(self.sent)
    }

    fn says(&self) -> String {
        let told = |value: Option<f64>| value.map_or_else(|| "unknown".to_owned(), digits);
        let outcome = self
            .dispatch
            .outcome
            .map_or("unknown", |outcome| outcome.name());
        format!(
            "turn {}: due {} s, sent {} s, first token {} s, end {} s, {outcome}",
            self.dispatch.turn_id,
            digits(self.due),
            digits(self.sent),
            told(self.first),
            told(self.end)
        )
    }
}

/// Draws the lanes.
pub(super) fn figure(evidence: &Evidence<'_>) -> String {
    let mut by_session: BTreeMap<&str, Vec<Shown<'_>>> = BTreeMap::new();
    for shown in evidence.due().filter_map(Shown::of) {
        by_session
            .entry(&shown.dispatch.session)
            .or_default()
            .push(shown);
    }
    let all = by_session.len();
    let lanes = choose(by_session);
    let turns = || lanes.iter().flat_map(|(_, turns)| turns);
    let ends = turns().flat_map(|turn| [turn.due, turn.sent, turn.last()]);
    let Some(x) = Scale::over(Kind::Linear, ends).map(Scale::with_zero) else {
        let lack = if evidence.run.is_some() {
            "a request that was sent"
        } else {
            "a run"
        };
        return missing(ID, TITLE, &[lack.to_owned()]);
    };
    let height = HEAD + LANE * lanes.len() as f64 + FOOT;
    let about = format!(
        "{} of {all} sessions, spread over the run, at most {TURNS_MAX} turns each. Pale is waiting for the \
         first token, full is receiving; the tick is when the turn was due.",
        lanes.len()
    );
    frame(
        &Framed {
            id: ID,
            title: TITLE,
            about: &about,
            lacks: &[],
        },
        &[
            (Whose::Run, false, "run".to_owned()),
            (Whose::Set, false, "due, of the set".to_owned()),
        ],
        &svg(TITLE, height, &drawing(&lanes, x, height)),
        &table(&lanes),
    )
}

/// Sessions evenly spread over the order in which they began.
fn choose<'a>(by_session: BTreeMap<&'a str, Vec<Shown<'a>>>) -> Vec<(&'a str, Vec<Shown<'a>>)> {
    let mut lanes: Vec<(&str, Vec<Shown<'_>>)> = by_session.into_iter().collect();
    for (_, turns) in &mut lanes {
        turns.sort_by(|a, b| a.sent.total_cmp(&b.sent));
        turns.truncate(TURNS_MAX);
    }
    let start = |turns: &[Shown<'_>]| turns.first().map_or(0.0, |turn| turn.sent);
    lanes.sort_by(|a, b| start(&a.1).total_cmp(&start(&b.1)));
    let every = lanes.len().div_ceil(LANES_MAX).max(1);
    lanes.into_iter().step_by(every).collect()
}

fn drawing(lanes: &[(&str, Vec<Shown<'_>>)], x: Scale, height: f64) -> String {
    let mut inside = names_at("session", "seconds from the start", height);
    let foot = height - FOOT;
    for tick in x.ticks() {
        inside.push_str(&upright_tick_at(across(x.place(tick)), foot, &short(tick)));
    }
    for (index, (_, turns)) in lanes.iter().enumerate() {
        let top = HEAD + LANE * index as f64;
        push(
            &mut inside,
            format_args!(
                "<text class=\"tick\" x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 5.0,
                top + LANE - 3.0,
                index + 1
            ),
        );
        for turn in turns {
            inside.push_str(&bar(turn, x, top));
        }
    }
    inside
}

/// One turn: it says itself when it is pointed at.
fn bar(turn: &Shown<'_>, x: Scale, top: f64) -> String {
    let at = |seconds: f64| across(x.place(seconds));
    let (sent, last) = (at(turn.sent), at(turn.last()));
    let first = turn.first.map_or(last, at);
    let mut drawn = String::new();
    for (class, from, to) in [("dot run faint", sent, first), ("dot run", first, last)] {
        push(
            &mut drawn,
            format_args!(
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.0}\"/>",
                top + 2.0,
                (to - from).max(0.4),
                LANE - 4.0
            ),
        );
    }
    push(
        &mut drawn,
        format_args!(
            "<line class=\"line set\" x1=\"{due:.1}\" x2=\"{due:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><rect class=\"hit\" data-x=\"{sent:.1}\" x=\"{sent:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{LANE}\"><title>{}</title></rect>",
            top + 1.0,
            top + LANE - 1.0,
            (last - sent).max(2.0),
            escape(&turn.says()),
            due = at(turn.due),
        ),
    );
    drawn
}

fn table(lanes: &[(&str, Vec<Shown<'_>>)]) -> String {
    let mut rows = String::from(
        "<tr><th>lane</th><th>session</th><th>turn</th><th>due, s</th><th>sent, s</th><th>first token, s</th><th>end, s</th></tr>\n",
    );
    let cell = |value: Option<f64>| value.map_or_else(String::new, digits);
    for (index, (session, turns)) in lanes.iter().enumerate() {
        let name: String = session.chars().take(NAME_MAX).collect();
        for turn in turns {
            push(
                &mut rows,
                format_args!(
                    "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                    index + 1,
                    escape(&name),
                    turn.dispatch.turn_id,
                    digits(turn.due),
                    digits(turn.sent),
                    cell(turn.first),
                    cell(turn.end)
                ),
            );
        }
    }
    rows
}

//! What a manifest says about a choice: what was wanted of every sum, what it became, and what the
//! search never saw.

use super::feature::Group;
use super::fleet::share_of;
use super::judge::{MEASURES, Measured, Setting, errors_ln};
use super::problem::Problem;
use super::search::{State, work_names};
use super::source::Source;
use truetape_schemas::set::manifest::{EngineError, Residual, Selection};

/// Tells how far the sums of a choice are off.
pub fn residuals(problem: &Problem<'_>, taken: &[bool]) -> Vec<Residual> {
    let sums = problem.sums(taken);
    let terms = problem
        .features
        .terms
        .iter()
        .zip(sums)
        .zip(&problem.tolerances);
    let mut residuals: Vec<Residual> = terms
        .map(|((term, sum), tolerance)| {
            let wanted = problem.share * term.total;
            let base = problem.share * term.base;
            Residual {
                group: term.group.name().to_owned(),
                name: term.name.clone(),
                wanted: round(wanted),
                got: round(sum),
                error: if base > 0.0 {
                    round((sum - wanted) / base)
                } else {
                    0.0
                },
                held_out: tolerance.is_infinite(),
            }
        })
        .collect();
    residuals.extend(work(problem, taken));
    residuals
}

fn work(problem: &Problem<'_>, taken: &[bool]) -> Vec<Residual> {
    let Some(target) = &problem.work else {
        return Vec::new();
    };
    let found = State::new(problem, taken.to_vec())
        .dispersion()
        .unwrap_or_default();
    let wanted = target.wanted.iter().flatten();
    let both = wanted.zip(found.iter().flatten()).zip(work_names());
    both.filter_map(|((wanted, found), name)| {
        let (wanted, got) = ((*wanted)?, (*found)?);
        Some(Residual {
            group: Group::Work.name().to_owned(),
            name,
            wanted: round(wanted),
            got: round(got),
            error: if wanted > 0.0 && got > 0.0 {
                round((got / wanted).ln())
            } else {
                0.0
            },
            held_out: false,
        })
    })
    .collect()
}

/// Tells what one setting of the engine model measures of a choice, as relative errors.
pub fn engine_error(
    setting: Setting,
    chosen_on: bool,
    found: &Measured,
    wanted: &Measured,
) -> EngineError {
    let errors = errors_ln(found, wanted).into_iter().zip(MEASURES);
    EngineError {
        memory: setting.memory,
        time: setting.time,
        step_tokens: setting.step_tokens,
        chosen_on,
        errors: errors
            .filter_map(|(error, (name, _))| Some((name.to_owned(), round(error?.exp_m1()))))
            .collect(),
    }
}

/// Begins what is told of a choice of turns.
pub fn begin(source: &Source<'_>, method: &str, share: f64, turns: &[u32]) -> Selection {
    Selection {
        method: method.to_owned(),
        share: round(share),
        share_got: round(share_of(source, turns)),
        ..Selection::default()
    }
}

/// Six digits: what lies behind them is the order of additions.
fn round(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return 0.0;
    }
    let digits = 5 - value.abs().log10().floor() as i32;
    let scale = 10.0_f64.powi(digits.clamp(-15, 15));
    (value * scale).round() / scale
}

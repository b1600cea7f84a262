//! Which function a request makes the model call.

use super::super::refusal::Refusal;
use super::fields::Fields;
use serde_json::Value;

/// The function that the answer calls: the one that `tool_choice` names, or with `required` the
/// first. With `auto` and `none` the answer is text.
pub(super) fn called(fields: &Fields<'_>) -> Result<Option<String>, Refusal> {
    let names: Vec<&str> = fields
        .list("tools")?
        .unwrap_or_default()
        .iter()
        .filter_map(name)
        .collect();
    let chosen = match fields.get("tool_choice") {
        None => return Ok(None),
        Some(Value::String(choice)) => match choice.as_str() {
            "auto" | "none" => return Ok(None),
            "required" => names.first().copied(),
            _ => {
                return Err(invalid(
                    "`tool_choice` must be auto, none, required or a function.",
                ));
            }
        },
        Some(choice) => {
            let wanted = name(choice);
            wanted.filter(|wanted| names.contains(wanted))
        }
    };
    match chosen {
        Some(name) => Ok(Some(name.to_owned())),
        None => Err(invalid(
            "`tool_choice` needs a function that is in `tools`.",
        )),
    }
}

fn name(tool: &Value) -> Option<&str> {
    tool.get("function")?.get("name")?.as_str()
}

fn invalid(message: &str) -> Refusal {
    Refusal::bad(Some("tool_choice"), message)
}

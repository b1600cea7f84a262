//! A chat as the text that a model reads: its own template, in the dialect of Jinja that Hugging
//! Face's library speaks.

use super::files::Source;
use crate::error::Error;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, ErrorKind, Value as Jinja};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde_json::{Map, Value, json};

/// The name of the one template. It ends in nothing that turns on escaping.
const NAME: &str = "chat";

/// What templates get that ask for today's date: a set must not depend on the day it is made.
const TODAY: &str = "01 Jan 2026";

/// A compiled template.
pub(super) struct Template {
    environment: Environment<'static>,
    bos: String,
    eos: String,
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Template(..)")
    }
}

impl Template {
    /// Compiles a template.
    pub(super) fn of(source: &Source) -> Result<Self, Error> {
        let wrong = |cause: minijinja::Error| {
            let problem = format!("chat template: {cause}; it cannot be used, leave it out");
            Error::config("recipe: tokens.chat_template", problem)
        };
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build();
        environment.set_syntax(syntax.map_err(wrong)?);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_function("raise_exception", raise);
        environment.add_function("strftime_now", |_format: String| TODAY.to_owned());
        environment.add_filter("tojson", to_json);
        environment
            .add_template_owned(NAME, without_generation(&source.text))
            .map_err(wrong)?;
        Ok(Self {
            environment,
            bos: source.bos.clone(),
            eos: source.eos.clone(),
        })
    }

    /// Renders a chat, with the header of the answer to come.
    pub(super) fn render(&self, chat: &Value) -> Result<String, String> {
        let mut context = Map::new();
        context.insert("messages".to_owned(), messages(chat));
        let tools = chat
            .get("tools")
            .filter(|tools| tools.as_array().is_some_and(|t| !t.is_empty()));
        context.insert("tools".to_owned(), tools.cloned().unwrap_or_default());
        context.insert("add_generation_prompt".to_owned(), json!(true));
        context.insert("bos_token".to_owned(), json!(self.bos));
        context.insert("eos_token".to_owned(), json!(self.eos));
        for (name, value) in arguments(chat) {
            context.insert(name.clone(), value.clone());
        }
        let template = self.environment.get_template(NAME);
        let rendered = template.and_then(|template| template.render(Jinja::from(Serde(&context))));
        rendered.map_err(|cause| format!("chat template: {cause}"))
    }
}

/// What a client hands to the template of vLLM or SGLang, as `enable_thinking`.
fn arguments(chat: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let arguments = chat.get("chat_template_kwargs").and_then(Value::as_object);
    arguments.into_iter().flatten()
}

/// Messages as servers hand them to templates: text parts joined, arguments of calls as objects.
fn messages(chat: &Value) -> Value {
    let list = chat.get("messages").and_then(Value::as_array);
    list.map_or(&[][..], Vec::as_slice)
        .iter()
        .map(message)
        .collect()
}

fn message(message: &Value) -> Value {
    let mut message = message.clone();
    // Servers fill in an empty text where an assistant only calls tools: templates add to it.
    if let Some(fields) = message.as_object_mut() {
        let content = fields.entry("content").or_insert(Value::Null);
        match content {
            Value::Null => *content = Value::from(""),
            Value::Array(_) => *content = Value::from(joined(content)),
            _ => {}
        }
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten() {
        if let Some(arguments) = call.pointer_mut("/function/arguments") {
            let object = arguments
                .as_str()
                .and_then(|text| serde_json::from_str(text).ok());
            if let Some(object @ Value::Object(_)) = object {
                *arguments = object;
            }
        }
    }
    message
}

/// The texts among the parts of a content.
fn joined(content: &Value) -> String {
    let parts = content.as_array().map_or(&[][..], Vec::as_slice);
    let text = |part: &Value| {
        let text = part
            .as_str()
            .or_else(|| part.get("text").and_then(Value::as_str));
        text.map(str::to_owned)
    };
    parts.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}

/// A chat without a template: roles and texts, a line each. Counts are a few tokens off.
pub(super) fn plain(chat: &Value) -> String {
    let mut text = String::new();
    if let Some(tools) = chat.get("tools").filter(|tools| !tools.is_null()) {
        text.push_str(&tools.to_string());
        text.push('\n');
    }
    for message in messages(chat).as_array().map_or(&[][..], Vec::as_slice) {
        let field = |name: &str| {
            message
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        text.push_str(field("role"));
        text.push('\n');
        text.push_str(field("content"));
        if let Some(calls) = message.get("tool_calls").filter(|calls| !calls.is_null()) {
            text.push_str(&calls.to_string());
        }
        text.push('\n');
    }
    text.push_str("assistant\n");
    text
}

/// Marks of what is trained on say nothing about the text. They become blocks that always hold, so
/// that the white space around them goes as they say.
fn without_generation(template: &str) -> String {
    let mut kept = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, tag)) = rest.split_once("{%") {
        let Some((inner, after)) = tag.split_once("%}") else {
            break;
        };
        kept.push_str(before);
        kept.push_str("{%");
        kept.push_str(&match inner.trim_matches(['-', '+']).trim() {
            "generation" => inner.replace("generation", "if true"),
            "endgeneration" => inner.replace("endgeneration", "endif"),
            _ => inner.to_owned(),
        });
        kept.push_str("%}");
        rest = after;
    }
    kept.push_str(rest);
    kept
}

fn raise(message: String) -> Result<String, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, message))
}

/// JSON as Python writes it, without escapes for HTML: the library's filter has them.
fn to_json(value: &Jinja, options: Kwargs) -> Result<Jinja, minijinja::Error> {
    let wrong = |cause: serde_json::Error| {
        minijinja::Error::new(ErrorKind::InvalidOperation, cause.to_string())
    };
    let indent: Option<usize> = options.get("indent").ok();
    for ignored in ["ensure_ascii", "separators", "sort_keys"] {
        let _as_python_does_by_default: Option<Jinja> = options.get(ignored).ok();
    }
    let value = serde_json::to_value(value).map_err(wrong)?;
    let mut text = String::new();
    python_json(&value, indent, 0, &mut text);
    Ok(Jinja::from_safe_string(text))
}

fn python_json(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        if let Some(indent) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    };
    let comma = if indent.is_some() { "," } else { ", " };
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { comma } else { "" });
                line(depth + 1, out);
                python_json(item, indent, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Value::Object(fields) if !fields.is_empty() => {
            out.push('{');
            for (at, (name, field)) in fields.iter().enumerate() {
                out.push_str(if at > 0 { comma } else { "" });
                line(depth + 1, out);
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push_str(": ");
                python_json(field, indent, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Source, Template, plain, without_generation};
    use serde_json::json;

    fn rendered(template: &str, chat: &serde_json::Value) -> Result<String, String> {
        let source = Source {
            text: template.to_owned(),
            bos: "<s>".to_owned(),
            eos: "</s>".to_owned(),
        };
        Template::of(&source)
            .map_err(|error| error.to_string())?
            .render(chat)
    }

    #[test]
    fn a_template_speaks_the_jinja_of_models() {
        let template = "{{ bos_token }}{% for m in messages %}\n\
            {%- generation %}\n\
            {{- '<|' + m.role + '|>' + m['content'].strip() }}\n\
            {%- endgeneration %}\n\
            {% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";
        let chat = json!({"messages": [
            {"role": "system", "content": " a "},
            {"role": "user", "content": [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]},
        ]});
        assert_eq!(
            rendered(template, &chat).unwrap(),
            "<s><|system|>a<|user|>b\nc<|assistant|>"
        );
    }

    #[test]
    fn json_is_as_python_writes_it() {
        let chat =
            json!({"messages": [], "tools": [{"name": "x<y", "n": 1.0, "none": null, "l": []}]});
        assert_eq!(
            rendered("{{ tools | tojson }}", &chat).unwrap(),
            r#"[{"name": "x<y", "n": 1.0, "none": null, "l": []}]"#
        );
        assert_eq!(
            rendered(
                "{{ tools[0].name | tojson(indent=2) }}{{ {'a': [1]} | tojson(indent=2) }}",
                &chat
            )
            .unwrap(),
            "\"x<y\"{\n  \"a\": [\n    1\n  ]\n}"
        );
    }

    #[test]
    fn arguments_of_calls_are_objects_and_clients_reach_the_template() {
        let chat = json!({"chat_template_kwargs": {"enable_thinking": false}, "messages": [
            {"role": "assistant", "tool_calls": [{"function": {"arguments": "{\"a\":1}"}}]}]});
        let template = "{{ messages[0].tool_calls[0].function.arguments.a }}{{ enable_thinking }}";
        assert_eq!(rendered(template, &chat).unwrap(), "1False");
    }

    #[test]
    fn a_template_that_refuses_a_chat_says_why_and_a_broken_one_is_refused() {
        let problem = rendered("{{ raise_exception('no system') }}", &json!({})).unwrap_err();
        assert!(problem.contains("no system"), "{problem}");
        let problem = rendered("{% if %}", &json!({})).unwrap_err();
        assert!(problem.contains("chat template"), "{problem}");
        assert_eq!(
            without_generation("a{%- generation -%}b{% x %}{% endgeneration %}{%"),
            "a{%- if true -%}b{% x %}{% endif %}{%"
        );
    }

    #[test]
    fn without_a_template_a_chat_is_its_roles_and_texts() {
        let chat = json!({"messages": [{"role": "user", "content": "x"}]});
        assert_eq!(plain(&chat), "user\nx\nassistant\n");
    }
}

//! The rules, in the order in which they are asked.

use super::{Headers, SESSION_HEADER, trace};
use crate::ids::content_id;
use crate::wire::RequestFacts;

/// How much a key that a rule gives can be trusted to name one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Confidence {
    /// The value may be new for every request.
    Weak,
    /// The value names something that is often, not always, one conversation.
    Medium,
    /// The value names a conversation, unless a client uses it for something else.
    Strong,
    /// The value is made to name a conversation.
    Explicit,
}

/// A place where a session may be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A header that the operator named.
    Configured,
    /// `x-claude-code-session-id`, with the agent that asks.
    ClaudeCode,
    /// The session inside `metadata.user_id`. The value names a person and a device, so the key
    /// is a hash.
    MetadataUser,
    /// `session-id`, `session_id`, `thread-id` or `x-codex-thread-id`, as Codex sends them.
    Codex,
    /// `x-session-id` or `x-session-affinity`.
    Session,
    /// The header of a gateway or a router: Dynamo, llm-d, Helicone, LiteLLM.
    Gateway,
    /// `session_id` or `litellm_session_id` in the body, or in its `metadata`; the id of SGLang's
    /// `session_params`.
    BodySession,
    /// `conversation` or `conversation_id` in the body.
    Conversation,
    /// `prompt_cache_key` in the body.
    PromptCacheKey,
    /// `previous_response_id` in the body. It gives no key: the answer that it names has to be
    /// found first.
    PreviousResponse,
    /// `x-client-request-id`.
    ClientRequest,
    /// `session.id` or `gen_ai.conversation.id` in the W3C baggage.
    Baggage,
    /// The W3C trace id.
    Trace,
}

/// Headers of gateways and routers.
const GATEWAY_HEADERS: [&str; 4] = [
    "x-dynamo-session-id",
    "x-session-token",
    "helicone-session-id",
    "x-litellm-session-id",
];

/// Headers that name the session that spawned this one.
const PARENT_HEADERS: [&str; 3] = [
    "x-parent-session-id",
    "x-dynamo-parent-session-id",
    "x-codex-parent-thread-id",
];

/// What a rule found.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) key: Option<String>,
    pub(super) parent: Option<String>,
}

/// What the rules look at.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) headers: Headers<'a>,
    pub(super) facts: &'a RequestFacts,
    pub(super) configured: &'a [String],
    pub(super) trace_id: &'a Option<String>,
}

/// Returns the first rule that fires, and what it found.
pub(super) fn first(request: &Request<'_>) -> Option<(Rule, Link)> {
    Rule::ALL
        .into_iter()
        .find_map(|rule| Some((rule, rule.ask(request)?)))
}

impl Rule {
    /// Every rule, in the order in which they are asked.
    ///
    /// `x-client-request-id` comes after the fields of the body: where a client makes a new one
    /// for every request, as its documentation tells it to, it must not hide a conversation.
    pub const ALL: [Self; 13] = [
        Self::Configured,
        Self::ClaudeCode,
        Self::MetadataUser,
        Self::Codex,
        Self::Session,
        Self::Gateway,
        Self::BodySession,
        Self::Conversation,
        Self::PromptCacheKey,
        Self::PreviousResponse,
        Self::ClientRequest,
        Self::Baggage,
        Self::Trace,
    ];

    /// The word in the column `session_rule`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::ClaudeCode => "claude_code",
            Self::MetadataUser => "metadata_user",
            Self::Codex => "codex",
            Self::Session => "session",
            Self::Gateway => "gateway",
            Self::BodySession => "body_session",
            Self::Conversation => "conversation",
            Self::PromptCacheKey => "prompt_cache_key",
            Self::PreviousResponse => "previous_response",
            Self::ClientRequest => "client_request",
            Self::Baggage => "baggage",
            Self::Trace => "trace",
        }
    }

    /// Reads the word in the column; `None` for a rule of a later version.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// How much its keys can be trusted.
    pub fn confidence(self) -> Confidence {
        match self {
            Self::Configured
            | Self::ClaudeCode
            | Self::MetadataUser
            | Self::Codex
            | Self::Session
            | Self::Gateway
            | Self::BodySession => Confidence::Explicit,
            Self::Conversation | Self::PromptCacheKey | Self::PreviousResponse => {
                Confidence::Strong
            }
            Self::Baggage | Self::Trace => Confidence::Medium,
            Self::ClientRequest => Confidence::Weak,
        }
    }

    /// Says what this rule finds in a request; `None` where it does not fire.
    fn ask(self, request: &Request<'_>) -> Option<Link> {
        let Request {
            headers,
            facts,
            configured,
            trace_id,
        } = request;
        let header = |names: &[&str]| names.iter().find_map(|name| headers.get(name));
        let key = match self {
            Self::ClaudeCode => return claude_code(*headers),
            Self::PreviousResponse => {
                return facts.previous_response_id.is_some().then(Link::default);
            }
            Self::Configured => configured
                .iter()
                .find_map(|name| headers.get(name))?
                .to_owned(),
            Self::MetadataUser => metadata_session(facts.metadata_user_id.as_deref()?)?,
            Self::Codex => {
                header(&["session-id", "session_id", "thread-id", "x-codex-thread-id"])?.to_owned()
            }
            Self::Session => header(&[SESSION_HEADER, "x-session-affinity"])?.to_owned(),
            Self::Gateway => header(&GATEWAY_HEADERS)?.to_owned(),
            Self::BodySession => facts.session_id.clone()?,
            Self::Conversation => facts.conversation.clone()?,
            Self::PromptCacheKey => facts.prompt_cache_key.clone()?,
            Self::ClientRequest => headers.get("x-client-request-id")?.to_owned(),
            Self::Baggage => trace::baggage_session(headers.get("baggage")?)?,
            Self::Trace => (*trace_id).clone()?,
        };
        let parent = header(&PARENT_HEADERS)
            .map(str::to_owned)
            .filter(|parent| *parent != key);
        Some(Link {
            key: Some(key),
            parent,
        })
    }
}

/// Sub-agents send the session of the agent that spawned them, and an id of their own. Each is a
/// conversation, so the key has both.
fn claude_code(headers: Headers<'_>) -> Option<Link> {
    let session = headers.get("x-claude-code-session-id")?;
    let Some(agent) = headers.get("x-claude-code-agent-id") else {
        return Some(Link {
            key: Some(session.to_owned()),
            parent: None,
        });
    };
    let parent = match headers.get("x-claude-code-parent-agent-id") {
        Some(parent) => format!("{session}/{parent}"),
        None => session.to_owned(),
    };
    Some(Link {
        key: Some(format!("{session}/{agent}")),
        parent: Some(parent),
    })
}

/// The key of a session named inside `metadata.user_id`, in its two forms: a JSON object with a
/// `session_id`, and `user_<hash>_account_<id>_session_<id>`. A value that names only a user is
/// no session.
fn metadata_session(user_id: &str) -> Option<String> {
    let object = serde_json::from_str::<serde_json::Value>(user_id).ok();
    let named = object
        .as_ref()
        .and_then(|object| object.get("session_id")?.as_str());
    let session = named.or_else(|| user_id.rsplit_once("_session_").map(|(_, id)| id))?;
    (!session.is_empty()).then(|| content_id(user_id.as_bytes()))
}

//! What all stages came to: a digest, a report and a manifest.

use super::arrange::Arranged;
use super::select::Selected;
use super::{CompileOptions, Compiled, Prepared, content, emit};
use crate::error::Error;
use crate::parallel;
use crate::recipe::{self, RATE_RECORDED, RATE_STRESS, Recipe};
use truetape_fidelity::population::Population;
use truetape_fidelity::profile::Profile;
use truetape_fidelity::{grade, profile};
use truetape_schemas::file;
use truetape_schemas::report::{self, Report};
use truetape_schemas::set::manifest::{Counts, Manifest, Semantics};
use truetape_schemas::set::{FORMAT, Turn, store};

/// Everything that goes into a set.
pub(super) struct Made<'a> {
    pub(super) recipe: &'a Recipe,
    pub(super) prepared: &'a Prepared,
    pub(super) source_profile: Profile,
    pub(super) selected: Selected,
    pub(super) arranged: Arranged,
    pub(super) content: content::Made,
}

impl Made<'_> {
    /// Writes the set, unless the store holds it already.
    pub(super) fn finish(self, options: &CompileOptions) -> Result<Compiled, Error> {
        let recipe = self.recipe.to_json(&self.prepared.tokenized.tokenizer)?;
        let sources = &self.prepared.ingested.sources;
        let parts = &self.content.parts;
        let turns = self.content.prompts.fill(&self.arranged.turns, parts);
        let digest = store::digest_of(&recipe, sources, turns, parts.names());
        let name = &self.recipe.name;
        if let Some(manifest) = emit::existing(&options.store, name, &digest)? {
            emit::tag(&options.store, name, &digest, &options.tags)?;
            let dir = store::set_dir(&options.store, name, &digest);
            let report = read_report(&dir)?;
            return Ok(Compiled {
                dir,
                manifest,
                report,
                existed: true,
            });
        }
        let rows = emit::Rows {
            name,
            digest: &digest,
            kind: self.recipe.content.kind,
            turns: &self.arranged.turns,
            content: &self.content,
        };
        // Its rows are written while it is judged.
        let ((report, profile), aside) = parallel::both(
            options.threads,
            || self.judged(&digest),
            || emit::begin(&options.store, &rows, options.threads),
        )?;
        let manifest = self.manifest(recipe, digest.clone(), &profile)?;
        let dir = aside?.finish(&manifest, &report)?;
        emit::tag(&options.store, name, &manifest.digest, &options.tags)?;
        Ok(Compiled {
            dir,
            manifest,
            report,
            existed: false,
        })
    }

    /// The level 1 report, and the profile of the set.
    fn judged(&self, digest: &str) -> (Report, Profile) {
        let population = self.population();
        let source = &self.prepared.population;
        let report = grade::set_against_source(source, &population, &self.context(digest));
        let profile = profile::profile(&population, &profile::Options::default());
        (report, profile)
    }

    fn population(&self) -> Population {
        // A turn's row says whose it is; a set does not.
        let tenant = |place: usize| {
            let row = *self.arranged.rows.get(place)?;
            self.prepared.population.turns.get(row)?.tenant
        };
        Population::of_owned_turns(
            &self.arranged.turns,
            tenant,
            self.prepared.tokenized.block_tokens,
            self.prepared.ingested.footers.clock_resolution_us,
        )
    }

    fn context(&self, digest: &str) -> grade::SetContext {
        grade::SetContext {
            set_name: self.recipe.name.clone(),
            set_digest: digest.to_owned(),
            view: self.recipe.view.name().to_owned(),
            // Several samples at once, where they were, are one larger sample.
            rate: match self.recipe.arrange.rate.as_str() {
                RATE_STRESS => RATE_RECORDED.to_owned(),
                rate => rate.to_owned(),
            },
            share: self.selected.share,
            rate_share: self.selected.rate_share,
            unlinked_share: self.prepared.sessions.unlinked_share,
            findings: self.all_findings(),
            ..grade::SetContext::default()
        }
    }

    fn all_findings(&self) -> Vec<String> {
        let mut findings = self.prepared.findings();
        findings.extend(self.selected.findings.iter().cloned());
        findings.extend(self.arranged.findings.iter().cloned());
        findings.extend(self.content.findings.iter().cloned());
        findings
    }

    fn manifest(
        &self,
        recipe: serde_json::Value,
        digest: String,
        profile: &Profile,
    ) -> Result<Manifest, Error> {
        let Prepared {
            ingested,
            tokenized,
            sessions,
            ..
        } = self.prepared;
        let is_selected = self.recipe.control.is_none();
        let json = |profile: &Profile| {
            serde_json::to_value(profile)
                .map_err(|cause| Error::bug("profile", format!("could not encode JSON: {cause}")))
        };
        Ok(Manifest {
            format: FORMAT.to_string(),
            name: self.recipe.name.clone(),
            digest,
            recipe,
            sources: ingested.sources.clone(),
            counts: counts(&self.arranged.turns, self.content.parts.len()),
            stages: vec![
                ingested.stage.clone(),
                tokenized.stage.clone(),
                sessions.stage.clone(),
                self.selected.stage.clone(),
            ],
            chains: sessions.chains.clone(),
            tokenizer: tokenized.tokenizer.clone(),
            block_tokens: tokenized.block_tokens,
            seed: self.recipe.seed,
            source_profile: json(&self.source_profile)?,
            profile: json(profile)?,
            semantics: Semantics {
                input: "cumulative".to_owned(),
                history: match &self.recipe.control {
                    Some(_) => "none".to_owned(),
                    None => "recorded".to_owned(),
                },
                rate: self.recipe.arrange.rate.clone(),
                view: self.recipe.view.name().to_owned(),
                content: self.recipe.content.kind.name().to_owned(),
                clock_resolution_us: ingested.footers.clock_resolution_us,
                control: self.recipe.control.as_ref().map(recipe::Control::name),
            },
            // What was generated was neither selected nor moved.
            selection: is_selected.then(|| self.selected.told.clone()),
            arrangement: is_selected.then(|| self.arranged.told.clone()),
            findings: self.all_findings(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

fn counts(turns: &[Turn], parts: usize) -> Counts {
    let sum = |tokens: fn(&Turn) -> Option<i64>| {
        turns
            .iter()
            .filter_map(tokens)
            .filter_map(|tokens| u64::try_from(tokens).ok())
            .fold(0, u64::saturating_add)
    };
    let mut sessions: Vec<&str> = turns.iter().map(|turn| turn.session.as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    Counts {
        turns: turns.len() as u64,
        sessions: sessions.len() as u64,
        input_tokens: sum(|turn| turn.input_tokens),
        output_tokens: sum(|turn| turn.output_tokens),
        content_parts: parts as u64,
    }
}

fn read_report(dir: &std::path::Path) -> Result<Report, Error> {
    let path = dir.join(store::FIDELITY);
    Ok(file::read_json(&path, report::FORMAT)?)
}

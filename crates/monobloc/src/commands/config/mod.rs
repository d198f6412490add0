//! `monobloc config`: what a cluster is told to be.

mod detect;
mod diff;
mod explain;
mod init;
mod schema;
mod show;
pub(crate) mod validate;

use std::io;

use build::tree::{LoadError, Tree};
use camino::{Utf8Path, Utf8PathBuf};
use config::definition::DefinitionError;
use config::{Definition, Input, Resolution};
use package::archive::{self, UnpackOptions};
use package::artifact::{Artifact, TREE_CONFIG};
use package::distribution::Distribution;
use package::durable::{self, Staging};
use package::manifest::MANIFEST;

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::render::Output;

/// Where the reference wants the file.
pub(crate) const CONFIG: &str = "genconf/config.yaml";
/// What `--tree` is for.
const TREE_HINT: &str =
    "`--tree` names the tree that declares the parameters: its folder, or the artifact made of it";
/// What to do without a file that can be read.
const HINT: &str = "`monobloc config init` writes one to begin with";

/// Say what a cluster is, and try it before hosts see it
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ConfigCommand {
    Init(init::InitArgs),
    Validate(validate::ValidateArgs),
    Explain(explain::ExplainArgs),
    Show(show::ShowArgs),
    Diff(diff::DiffArgs),
    Schema(schema::SchemaArgs),
    Detect(detect::DetectArgs),
}

/// Whose parameters are meant
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TreeArgs {
    /// The tree that declares the parameters: its folder, or the artifact that was made of it
    #[arg(long, value_name = "FOLDER|FILE", default_value = ".", env = "MONOBLOC_TREE")]
    pub(crate) tree: Utf8PathBuf,
}

/// Whose parameters are meant, and the file that sets them
#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    #[command(flatten)]
    pub(crate) tree: TreeArgs,

    /// The file; paths in it start where `genconf` lies, or beside it if it is elsewhere
    #[arg(long, value_name = "FILE", default_value = CONFIG)]
    pub(crate) config: Utf8PathBuf,
}

impl FileArgs {
    /// The file where the reference wants it.
    pub(crate) fn of_genconf(tree: &TreeArgs) -> Self {
        Self { tree: tree.clone(), config: CONFIG.into() }
    }
}

/// What a tree declares.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) definition: Definition,
    pub(crate) distribution: Distribution,
    /// The artifact that it stands in; `None`: a tree.
    pub(crate) artifact: Option<Artifact>,
}

pub(crate) fn run(
    context: &Context,
    command: &ConfigCommand,
    output: &Output,
) -> Result<Outcome, Failure> {
    match command {
        ConfigCommand::Init(arguments) => init::run(context, arguments, output),
        ConfigCommand::Validate(arguments) => validate::run(arguments, output),
        ConfigCommand::Explain(arguments) => explain::run(arguments, output),
        ConfigCommand::Show(arguments) => show::run(arguments, output),
        ConfigCommand::Diff(arguments) => diff::run(arguments, output),
        ConfigCommand::Schema(arguments) => schema::run(arguments, output),
        ConfigCommand::Detect(arguments) => detect::run(context, arguments, output),
    }
}

/// Reads what the tree declares and finds the value of everything, which may have mistakes.
pub(crate) fn load(arguments: &FileArgs) -> Result<(Declared, Resolution), Failure> {
    let declared = Declared::load(&arguments.tree)?;
    let resolution = declared.resolve(&arguments.config)?;
    Ok((declared, resolution))
}

impl Declared {
    /// Reads what the tree declares.
    pub(crate) fn load(arguments: &TreeArgs) -> Result<Self, Failure> {
        let tree = &arguments.tree;
        if fs_err::metadata(tree).is_ok_and(|found| found.is_file()) {
            return Self::of_artifact(Artifact::open(tree)?);
        }
        if !durable::is_folder(tree)? {
            return Err(Failure::usage(format!("`{tree}` does not exist")).hint(TREE_HINT));
        }
        if !Tree::is_one(tree)? {
            return Err(
                Failure::usage(format!("`{tree}` is no tree of components")).hint(TREE_HINT)
            );
        }
        let distribution = Tree::distribution_of(tree).map_err(|error| match error {
            LoadError::Mistakes(found) => Failure::mistakes_in("the tree", found),
            error => Failure::of(&error),
        })?;
        Ok(Self { definition: definition(tree)?, distribution, artifact: None })
    }

    /// Reads what the tree declared that an artifact was made of.
    fn of_artifact(artifact: Artifact) -> Result<Self, Failure> {
        if artifact.is_configured() {
            return Err(Failure::usage(format!("`{}` is configured already", artifact.path()))
                .hint("hosts install from it: `monobloc host install --from FILE`"));
        }
        let staging = Staging::temporary()?;
        if let Some(packed) = artifact.piece(TREE_CONFIG) {
            let folder = staging.path().join("config");
            archive::unpack(&packed, &folder, &UnpackOptions::default())?;
            fs_err::remove_file(folder.join(MANIFEST))?;
        }
        let distribution = artifact.index().distribution.clone();
        let definition = definition(staging.path())?;
        Ok(Self { definition, distribution, artifact: Some(artifact) })
    }

    /// Finds the value of everything, as `file` sets it.
    pub(crate) fn resolve(&self, file: &Utf8Path) -> Result<Resolution, Failure> {
        Ok(self.resolve_text(file, &read(file)?))
    }

    /// Finds the value of everything, as a file with this text sets it.
    fn resolve_text(&self, file: &Utf8Path, text: &str) -> Resolution {
        let input = Input { file, text, folder: &folder_of(file) };
        self.definition.resolve(&input, &self.distribution)
    }
}

fn definition(tree: &Utf8Path) -> Result<Definition, Failure> {
    Definition::load(tree).map_err(|error| match error {
        DefinitionError::Mistakes(found) => {
            Failure::mistakes_in("the configuration that the tree declares", found)
        }
        DefinitionError::Io { .. } => Failure::of(&error),
    })
}

/// Where paths in a configuration start: at the folder that holds `genconf`, or, of a file that is not
/// in one, at its own.
fn folder_of(file: &Utf8Path) -> Utf8PathBuf {
    let own = file.parent().unwrap_or(file);
    let start = if own.file_name() == Some("genconf") { own.parent().unwrap_or(own) } else { own };
    if start == "" { ".".into() } else { start.to_owned() }
}

fn read(file: &Utf8Path) -> Result<String, Failure> {
    let failed = |reason: String| {
        Failure::new(format!("cannot read the configuration `{file}`: {reason}")).hint(HINT)
    };
    let bytes = package::document::read(file).map_err(|error| {
        failed(match error.kind() {
            io::ErrorKind::NotFound => "it does not exist".to_owned(),
            io::ErrorKind::IsADirectory => "it is a folder".to_owned(),
            _ => error.to_string(),
        })
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..at].split(|byte| *byte == b'\n').count();
        failed(format!("line {line} is not UTF-8"))
    })
}

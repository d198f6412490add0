//! Why packages cannot be active together.

use camino::Utf8PathBuf;

use crate::id::{GroupName, PackageId, UserName, Variant};
use crate::path::PackagePath;
use crate::pkginfo::Require;

use super::{Target, VariableProblem};

/// One reason. The message names every package that takes part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Conflict {
    #[error("the install root `{}` cannot be part of an environment: expected letters, digits and `/._-+@,=~%`", root.as_str().escape_debug())]
    InstallRoot { root: Utf8PathBuf },
    #[error("two packages of one name: `{first}` and `{second}`")]
    DuplicateName { first: PackageId, second: PackageId },
    #[error("`{package}` requires {require}, which is not in the set")]
    Missing { package: PackageId, require: Require },
    #[error("`{package}` requires {require}, but `{found}` in the set is variant {variant}")]
    WrongVariant { package: PackageId, require: Require, found: PackageId, variant: Variant },
    #[error("`{path}` is brought by `{}` ({}) and by `{}` ({})", first.package, first.path, second.package, second.path)]
    File { path: PackagePath, first: Target, second: Target },
    #[error("`{path}` of `{package}` is no folder: what lies in it could not be shown")]
    NotAFolder { package: PackageId, path: PackagePath },
    #[error("`{}` brings `{}`: the installation itself makes `{path}`", target.package, target.path)]
    ReservedFile { path: PackagePath, target: Target },
    #[error("unit `{unit}` is brought by `{}` and by `{}`", first.package, second.package)]
    Unit { unit: String, first: Target, second: Target },
    #[error("`{}` of `{package}` is not the name of a unit: expected letters, digits and `:-_.@\\`, with an ending such as `.service`", unit.escape_debug())]
    UnitName { unit: String, package: PackageId },
    #[error("`{package}` brings the unit `{unit}`, a name that belongs to the installation itself")]
    ReservedUnit { unit: String, package: PackageId },
    #[error("`{package}` has a folder among its units: `{path}`; only unit files can be there")]
    UnitFolder { package: PackageId, path: PackagePath },
    #[error("the unit `{path}` of `{package}` leads to no file of that package")]
    UnitTarget { package: PackageId, path: PackagePath },
    #[error("environment variable `{variable}` is set by `{first}` and by `{second}`")]
    Variable { variable: String, first: PackageId, second: PackageId },
    #[error("`{package}` sets the environment variable `{}`: {problem}", variable.escape_debug())]
    VariableProblem { package: PackageId, variable: String, problem: VariableProblem },
    #[error(
        "sysctl `{setting}` is set to `{first_value}` by `{first}` and to `{second_value}` by `{second}`"
    )]
    Sysctl {
        setting: String,
        first: PackageId,
        first_value: String,
        second: PackageId,
        second_value: String,
    },
    #[error("`{package}` has sysctl settings but no `.service` file that would apply them")]
    SysctlWithoutService { package: PackageId },
    #[error("`{package}` sets sysctl `{}` to `{}`: not a setting and a value", setting.escape_debug(), value.escape_debug())]
    SysctlForm { package: PackageId, setting: String, value: String },
    #[error("`{package}` names the group `{group}` but no user")]
    GroupWithoutUser { package: PackageId, group: GroupName },
    #[error("user `{user}` is asked to be in different groups by `{first}` and `{second}`")]
    User { user: UserName, first: PackageId, second: PackageId },
    #[error(
        "`{package}` names the user `{user}`: users of this distribution start with `{prefix}`"
    )]
    UserPrefix { package: PackageId, user: UserName, prefix: String },
}

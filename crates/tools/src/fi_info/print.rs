//! The formats of `fi_info`, which scripts read. Source: fi_info(1).

use std::io::{self, Write};

use oxifabric::{Backend, Info, Parameter, ParameterKind};

use crate::output::{columns, program_name, wrap};

/// Prints some lines for each offer.
pub(super) fn short(out: &mut dyn Write, offers: &[Info]) -> io::Result<()> {
    offers.iter().try_for_each(|info| {
        let (major, minor) = info.provider_version();
        writeln!(out, "provider: {}", info.provider())?;
        writeln!(out, "    fabric: {}", info.fabric())?;
        writeln!(out, "    domain: {}", info.domain())?;
        writeln!(out, "    version: {major}.{minor}")?;
        writeln!(out, "    type: {}", info.ep_type_name())?;
        writeln!(out, "    protocol: {}", info.protocol_name())
    })
}

/// Prints the long text of each offer that contains `part`.
pub(super) fn long(out: &mut dyn Write, offers: &[Info], part: Option<&str>) -> io::Result<()> {
    offers.iter().try_for_each(|info| {
        let text = info.to_string();
        if contains(&text, part) {
            write!(out, "---\n{text}")?;
        }
        Ok(())
    })
}

/// Prints the name and version of each provider.
pub(super) fn providers(out: &mut dyn Write, offers: &[Info]) -> io::Result<()> {
    offers.iter().try_for_each(|info| {
        let (major, minor) = info.provider_version();
        writeln!(out, "{}:", info.provider())?;
        writeln!(out, "    version: {major}.{minor}")
    })
}

/// Prints the environment variables whose names contain `part`, ready to be pasted into a shell.
pub(super) fn variables(
    out: &mut dyn Write,
    backend: Backend,
    part: Option<&str>,
) -> io::Result<()> {
    let columns = columns();
    selected_variables(backend, part)?
        .iter()
        .try_for_each(|variable| show_variable(out, variable, columns))
}

/// Returns the variables whose names contain `part`.
pub(super) fn selected_variables(
    backend: Backend,
    part: Option<&str>,
) -> io::Result<Vec<Parameter>> {
    let mut variables = backend.parameters().map_err(io::Error::other)?;
    variables.retain(|variable| contains(&variable.name, part));
    Ok(variables)
}

fn show_variable(out: &mut dyn Write, variable: &Parameter, columns: usize) -> io::Result<()> {
    let kind = match variable.kind {
        ParameterKind::Text => "String",
        ParameterKind::Int => "Integer",
        ParameterKind::Size => "size_t",
        ParameterKind::Bool => "Boolean (0/1, on/off, true/false, yes/no)",
        _ => "Unknown",
    };
    writeln!(out, "# {}: {kind}", variable.name)?;
    writeln!(out, "{}", wrap(&variable.help, "# ", "# ", columns))?;
    if let Some(value) = &variable.value {
        let quote = if value.contains(' ') { "\"" } else { "" };
        writeln!(out, "{}={quote}{value}{quote}", variable.name)?;
    }
    writeln!(out)
}

/// Prints the versions of program, library and interface.
pub(super) fn version(out: &mut dyn Write, backend: Backend) -> io::Result<()> {
    let (major, minor) = backend.api_version();
    writeln!(
        out,
        "{}: {}",
        program_name("fi_info"),
        env!("CARGO_PKG_VERSION")
    )?;
    writeln!(out, "libfabric: {}", backend.version())?;
    writeln!(out, "libfabric api: {major}.{minor}")
}

/// Returns whether the text contains the part; case does not matter.
fn contains(text: &str, part: Option<&str>) -> bool {
    part.is_none_or(|part| {
        text.to_ascii_lowercase()
            .contains(&part.to_ascii_lowercase())
    })
}

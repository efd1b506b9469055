//! What the code of modules may not have: vector registers, which a kernel does not save, and large frames on its short stack.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Largest frame of a function, in bytes: a kibibyte, which all frames stay below where this was measured, and by how much frames differ from
/// build to build. Which functions are compiled into which depends on the names of crates, and these on where the sources are.
const LARGEST_FRAME: u64 = 1024 + 128;

/// Checks the instructions of all modules.
///
/// # Errors
/// Names the functions that break a rule.
pub(crate) fn check(modules: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let mut breaches = Vec::new();
    for module in modules {
        let name = module.file_stem().unwrap_or_default().to_string_lossy();
        let code = disassemble(module)?;
        breaches.extend(breaches_in(&code).map(|breach| format!("{name}: {breach}")));
    }
    match breaches.is_empty() {
        true => Ok(()),
        false => Err(breaches.join("\nkernel: ").into()),
    }
}

fn disassemble(module: &Path) -> Result<String, Box<dyn Error>> {
    let mut objdump = Command::new("objdump");
    let output = objdump
        .args(["-d", "--no-show-raw-insn"])
        .arg(module)
        .output()?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("objdump {}: {}", module.display(), output.status).into()),
    }
}

/// Lists what breaks a rule in the output of objdump.
fn breaches_in(code: &str) -> impl Iterator<Item = String> + '_ {
    let mut function = "";
    code.lines().filter_map(move |line| {
        if let Some((_, name)) = line
            .strip_suffix(">:")
            .and_then(|line| line.split_once(" <"))
        {
            function = name;
            return None;
        }
        if ["%xmm", "%ymm", "%zmm"]
            .iter()
            .any(|register| line.contains(register))
        {
            return Some(format!("{function} uses vector registers: {}", line.trim()));
        }
        let frame = frame(line)?;
        (frame > LARGEST_FRAME).then(|| format!("{function} has a frame of {frame} bytes"))
    })
}

/// Returns how many bytes an instruction takes from the stack.
fn frame(line: &str) -> Option<u64> {
    let (_, operands) = line.split_once("sub ")?;
    let bytes = operands.trim().strip_suffix(",%rsp")?.strip_prefix("$0x")?;
    // Compilers add by subtracting a negative number.
    let bytes = u64::from_str_radix(bytes, 16).ok()?;
    i64::try_from(bytes).is_ok().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "\
0000000000000010 <small>:
  10:	sub    $0x480,%rsp
0000000000000020 <large>:
  20:	sub    $0x488,%rsp
  28:	sub    $0x1000,%rax
  2c:	sub    $0xffffffffffffff80,%rsp
0000000000000030 <vector>:
  30:	movups %xmm0,(%rdi)
";

    #[test]
    fn vectors_and_large_frames_are_found() {
        let breaches: Vec<_> = breaches_in(CODE).collect();
        assert_eq!(
            breaches,
            [
                "large has a frame of 1160 bytes",
                "vector uses vector registers: 30:\tmovups %xmm0,(%rdi)"
            ]
        );
    }
}

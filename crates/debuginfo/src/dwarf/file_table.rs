//! The file table of a unit's line program (DWARF 5, section 6.2.4), as hashes of paths.
//!
//! Every unit of a kernel lists some thousand files, of which a print needs the path only to tell files apart.

use gimli::{DwForm, constants as dw};

use super::cursor::Cursor;
use super::hash::{bytes as hash_bytes, mix};

/// Where hashes of names begin, by the section of the name.
pub(super) const LINE_STR: u64 = 41;
pub(super) const STR: u64 = 43;
pub(super) const IN_PLACE: u64 = 47;

/// Fields of one entry; compilers write up to four.
const FIELDS_MAX: usize = 8;

/// A hash per file of the table at the cursor. `None` for other versions, 64-bit tables, forms that compilers do not
/// use there, and damage.
pub(super) fn hashes(mut cursor: Cursor<'_>) -> Option<Vec<u64>> {
    cursor.widths.offset = 4;
    let length = cursor.fixed(4);
    let end = cursor.at.checked_add(usize::try_from(length).ok()?)?;
    cursor.bytes = cursor.bytes.get(..end)?;
    if cursor.fixed(2) != 5 {
        return None;
    }
    // sizes of addresses and segments, length of the header, sizes and number of instructions, lines
    cursor.skip(2 + 4 + 5);
    let opcodes = cursor.fixed(1);
    cursor.skip(usize::try_from(opcodes.checked_sub(1)?).ok()?);
    let folders: Vec<u64> = entries(&mut cursor)?.into_iter().map(|(name, _)| name).collect();
    let folder = |index: u64| usize::try_from(index).ok().and_then(|i| folders.get(i).copied());
    let files = entries(&mut cursor)?;
    Some(files.into_iter().map(|(name, index)| mix(name, folder(index).unwrap_or(0))).collect())
}

/// Hashes of names and indices of folders of one list of entries.
fn entries(cursor: &mut Cursor<'_>) -> Option<Vec<(u64, u64)>> {
    let mut fields = [(dw::DW_LNCT_path, DwForm(0)); FIELDS_MAX];
    let fields = fields.get_mut(..cursor.fixed(1) as usize)?;
    for field in fields.iter_mut() {
        let (content, form) = (cursor.uleb(), cursor.uleb());
        *field = (gimli::DwLnct(u16::try_from(content).ok()?), DwForm(u16::try_from(form).ok()?));
    }
    let count = usize::try_from(cursor.uleb()).ok()?;
    // every entry has a byte at least, and a name
    if fields.is_empty() && count > 0 || count > cursor.bytes.len() - cursor.at {
        return None;
    }
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut name, mut folder) = (0, 0);
        for &(content, form) in fields.iter() {
            match content {
                dw::DW_LNCT_path => name = self::name(cursor, form)?,
                dw::DW_LNCT_directory_index => folder = index(cursor, form)?,
                _ => cursor.skip_form(form),
            }
        }
        list.push((name, folder));
    }
    (!cursor.failed).then_some(list)
}

fn name(cursor: &mut Cursor<'_>, form: DwForm) -> Option<u64> {
    Some(match form {
        dw::DW_FORM_line_strp => mix(LINE_STR, cursor.word(4)),
        dw::DW_FORM_strp => mix(STR, cursor.word(4)),
        dw::DW_FORM_string => {
            let start = cursor.at;
            cursor.skip_form(form);
            let text = cursor.bytes.get(start..cursor.at.checked_sub(1)?)?;
            hash_bytes(IN_PLACE, text)
        }
        _ => return None,
    })
}

fn index(cursor: &mut Cursor<'_>, form: DwForm) -> Option<u64> {
    Some(match form {
        dw::DW_FORM_udata => cursor.uleb(),
        dw::DW_FORM_data1 => cursor.word(1),
        dw::DW_FORM_data2 => cursor.word(2),
        _ => return None,
    })
}

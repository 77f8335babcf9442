//! Checks a JSON document against the published schemas in `docs/schema`, which keep to a small subset of JSON Schema
//! (draft 2020-12): `type`, `const`, `enum`, `required`, `properties`, `additionalProperties`, `items`, `minimum`,
//! `maximum`, `$ref` to `#/$defs/NAME`. An unknown keyword is an error, so that no rule is silently ignored.

use serde_json::{Map, Value};

/// Keywords that only inform.
const REMARKS: &[&str] = &["$schema", "$id", "$defs", "title", "description"];

/// Nesting of schema and document together; deeper ones are refused.
const DEPTH_MAX: usize = 100;

/// Everything in `document` that `schema` forbids, each with its place (`/lines/0/rank: ...`). Empty when it is valid.
pub fn violations(schema: &Value, document: &Value) -> Vec<String> {
    let mut out = Vec::new();
    Check { root: schema, out: &mut out }.value(schema, document, "", 0);
    out
}

struct Check<'a> {
    root: &'a Value,
    out: &'a mut Vec<String>,
}

impl Check<'_> {
    fn say(&mut self, at: &str, what: String) {
        self.out.push(format!("{}: {what}", if at.is_empty() { "/" } else { at }));
    }

    fn value(&mut self, schema: &Value, v: &Value, at: &str, depth: usize) {
        let Some(rules) = schema.as_object() else {
            return self.say(at, "the schema is not an object".into());
        };
        if depth > DEPTH_MAX {
            return self.say(at, "nested too deeply".into());
        }
        for (keyword, rule) in rules {
            match keyword.as_str() {
                "$ref" => self.reference(rule, v, at, depth),
                "type" => self.kind(rule, v, at),
                "const" if v != rule => self.say(at, format!("is {v}, must be {rule}")),
                "enum" if !rule.as_array().is_some_and(|all| all.contains(v)) => {
                    self.say(at, format!("{v} is none of {rule}"))
                }
                "minimum" | "maximum" => self.bound(keyword, rule, v, at),
                "required" => self.required(rule, v, at),
                "properties" | "additionalProperties" | "const" | "enum" => {}
                "items" => {
                    for (i, item) in v.as_array().into_iter().flatten().enumerate() {
                        self.value(rule, item, &format!("{at}/{i}"), depth + 1);
                    }
                }
                k if REMARKS.contains(&k) => {}
                k => self.say(at, format!("the schema has the unknown keyword `{k}`")),
            }
        }
        if let Some(object) = v.as_object() {
            self.object(rules, object, at, depth);
        }
    }

    fn reference(&mut self, rule: &Value, v: &Value, at: &str, depth: usize) {
        let root = self.root;
        let name = rule.as_str().and_then(|r| r.strip_prefix("#/$defs/"));
        match name.and_then(|n| root.get("$defs")?.get(n)) {
            Some(target) => self.value(target, v, at, depth + 1),
            None => self.say(at, format!("the schema refers to {rule}, which is not there")),
        }
    }

    fn kind(&mut self, rule: &Value, v: &Value, at: &str) {
        let is = |name: &str| match name {
            "null" => v.is_null(),
            "boolean" => v.is_boolean(),
            "integer" => v.is_i64() || v.is_u64(),
            "number" => v.is_number(),
            "string" => v.is_string(),
            "array" => v.is_array(),
            "object" => v.is_object(),
            _ => false,
        };
        let ok = match rule {
            Value::String(name) => is(name),
            Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
            _ => false,
        };
        if !ok {
            self.say(at, format!("{v} is not of type {rule}"));
        }
    }

    fn bound(&mut self, keyword: &str, rule: &Value, v: &Value, at: &str) {
        let (Some(limit), Some(n)) = (rule.as_f64(), v.as_f64()) else { return };
        if (keyword == "minimum" && n < limit) || (keyword == "maximum" && n > limit) {
            self.say(at, format!("{n} is beyond the {keyword} {limit}"));
        }
    }

    fn required(&mut self, rule: &Value, v: &Value, at: &str) {
        let Some(object) = v.as_object() else { return };
        for name in rule.as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !object.contains_key(name) {
                self.say(at, format!("`{name}` is missing"));
            }
        }
    }

    fn object(&mut self, rules: &Map<String, Value>, object: &Map<String, Value>, at: &str, depth: usize) {
        let known = rules.get("properties").and_then(Value::as_object);
        for (key, v) in object {
            let place = format!("{at}/{key}");
            match (known.and_then(|k| k.get(key)), rules.get("additionalProperties")) {
                (Some(rule), _) => self.value(rule, v, &place, depth + 1),
                (None, Some(Value::Bool(false))) => self.say(&place, "is not in the schema".into()),
                (None, Some(rule)) if rule.is_object() => self.value(rule, v, &place, depth + 1),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_rule_can_be_broken() {
        let schema = json!({
            "type": "object",
            "required": ["kind"],
            "additionalProperties": false,
            "properties": {
                "kind": { "const": "x" },
                "n": { "type": ["integer", "null"], "minimum": 0 },
                "list": { "type": "array", "items": { "$ref": "#/$defs/word" } },
            },
            "$defs": { "word": { "enum": ["a", "b"] } },
        });
        let check = |document: Value| violations(&schema, &document);
        assert_eq!(check(json!({ "kind": "x", "n": null, "list": ["a", "b"] })), [""; 0]);
        assert_eq!(check(json!({})), ["/: `kind` is missing"]);
        assert_eq!(check(json!({ "kind": "y" })), ["/kind: is \"y\", must be \"x\""]);
        assert_eq!(check(json!({ "kind": "x", "n": -1 })), ["/n: -1 is beyond the minimum 0"]);
        assert_eq!(check(json!({ "kind": "x", "n": 1.5 })).len(), 1);
        assert_eq!(check(json!({ "kind": "x", "more": 1 })), ["/more: is not in the schema"]);
        assert_eq!(check(json!({ "kind": "x", "list": ["c"] })), ["/list/0: \"c\" is none of [\"a\",\"b\"]"]);
        assert_eq!(violations(&json!({ "typo": 1 }), &json!(1)).len(), 1);
    }
}

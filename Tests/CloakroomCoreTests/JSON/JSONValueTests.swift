import TestSupport
import Testing

@testable import CloakroomCore

@Suite("A JSON value")
struct JSONValueTests {
    private func read(_ text: String) -> JSONValue? { JSONValue(document: Array(text.utf8)) }

    @Test("is parsed with all its contents")
    func reads() {
        let document = #" {"a": [1, -2.5e3, true, null, "é\n"], "b": {}} "#
        let expected = JSONValue.object([
            "a": .array([.number(1), .number(-2_500), .bool(true), .null, .string("é\n")]), "b": .object([:]),
        ])
        expect(read(document), equals: expected)
    }

    @Test(
        "Rule 20: is not parsed unless the whole input is JSON, from the first byte to the last",
        arguments: [
            "", " ", "{", #"{"a":1,}"#, #"{"a":1 , }"#, "[1,]", "[1\n,\t]", "{,}", "[,]", "[,1]", "[1 2]", #"{"a" 1}"#,
            #"{"a":1 "b":2}"#, #"{"a":}"#, "{1:2}", "[+1]", "[.5]", "[1.]", "[-]", "[1e]", "[0x1]", "[nul]", "[True]",
            #"["\ud800"]"#, "[\"\u{1}\"]", "//x\n1", #"{"a":1}x"#, "{'a':1}", #"{"a":01}"#, #"{"a":1.2.3}"#,
            #"{"a":NaN}"#,
            #"{"a":"\x"}"#, "{\"a\":\"b\u{0}\"}", "{\"a\":\"line\nbreak\"}", "<html></html>", #"{"a":[1,{"b":tru}]}"#,
            String(repeating: "[", count: 65_536), String(repeating: #"{"a":"#, count: 10_000),
        ])
    func rejects(text: String) {
        expect(read(text), equals: nil)
    }

    @Test("keeps commas and brackets inside strings")
    func commasInStrings() {
        expect(read(#"{"a":",]","b":"\",}"}"#), equals: .object(["a": .string(",]"), "b": .string("\",}")]))
    }

    @Test("returns the member at a dotted path, and nil if a step is missing")
    func paths() {
        let value = read(#"{"data":{"tokens":{"access":"x"},"none":null},"flat":1}"#)
        expect(value?[path: "data.tokens.access"], equals: .string("x"))
        expect(value?[path: "flat"], equals: .number(1))
        for path in ["data.none", "data.none.x", "data.tokens.refresh", "flat.x", "", "data..tokens", "data.tokens."] {
            expect(value?[path: path], equals: nil)
        }
    }
}

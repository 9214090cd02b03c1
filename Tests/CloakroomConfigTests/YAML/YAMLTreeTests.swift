import TestSupport
import Testing

@testable import CloakroomConfig

@Suite struct YAMLTreeTests {
    private func tree(_ yaml: String) throws -> YAMLTree {
        try YAMLTree(yaml: yaml) { Issue.record("\($0)") }
    }

    @Test func everyKeyKeepsItsPlace() throws {
        let tree = try tree("a:\n  - b: 1\n    c: [x, y]\nd: ~\n")
        expect(
            tree.order,
            equals: [
                ["a"], ["a", "0"], ["a", "0", "b"], ["a", "0", "c"], ["a", "0", "c", "0"], ["a", "0", "c", "1"], ["d"],
            ])
        expect(tree[["a"]]?.shape, equals: .list(count: 1))
        expect(tree[["a", "0"]]?.shape, equals: .section(["b", "c"]))
        expect(tree[["a", "0", "b"]]?.key, equals: FilePosition(line: 2, column: 5))
        expect(tree[["a", "0", "b"]]?.value, equals: FilePosition(line: 2, column: 8))
        expect(tree[["a", "0", "c", "1"]]?.value, equals: FilePosition(line: 3, column: 12))
        expect(tree[["d"]]?.shape, equals: .empty)
    }

    @Test func aValueInQuotesIsNeverEmpty() throws {
        let tree = try tree("a: \"\"\nb: '~'\nc: \"null\"\n")
        expect(tree[["a"]]?.shape, equals: .scalar(""))
        expect(tree[["b"]]?.shape, equals: .scalar("~"))
        expect(tree[["c"]]?.shape, equals: .scalar("null"))
    }

    @Test func aliasesStandForWhatTheyName() throws {
        let tree = try tree("a: &x { k: v }\nb: *x\n")
        expect(tree[["b", "k"]]?.shape, equals: .scalar("v"))
    }

    @Test func aliasesThatMultiplyAreRejected() {
        var yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        for level in 1...9 {
            let item = "*a\(level - 1)"
            yaml += "a\(level): &a\(level) [" + Array(repeating: item, count: 10).joined(separator: ", ") + "]\n"
        }
        let error = #expect(throws: YAMLTree.YAMLSyntaxError.self) { try tree(yaml) }
        expect(error?.valueError.message, equals: "the file must have at most 200,000 entries")
    }

    @Test(
        "Values that are nested too deep are rejected, also by aliases that are nested in each other",
        arguments: [(0, 33), (1, 32), (40, 1), (4_000, 30)])
    func nesting(_ links: Int, _ brackets: Int) {
        let (open, close) = (String(repeating: "[", count: brackets), String(repeating: "]", count: brackets))
        var yaml = "a0: &a0 \(open)\(close)\n"
        for link in 0..<links { yaml += "a\(link + 1): &a\(link + 1) \(open)*a\(link)\(close)\n" }
        let error = #expect(throws: YAMLTree.YAMLSyntaxError.self) { try tree(yaml) }
        expect(error?.valueError.message, equals: "values must be nested at most 32 deep")
    }

    @Test(
        "Aliases that multiply in a key are rejected before the key is compared",
        arguments: [
            ("? *a30\n: b\n", 32, 3), ("? [*a30]\n: b\n", 32, 4), ("? { b: *a30 }\n: c\n", 32, 8),
            ("b: [*a30:c]\n", 32, 5), ("b: { ? [{\"c\":*a30}] : d }\n", 32, 14), ("b: &c { *a30 : d }\n", 32, 9),
            ("b: " + String(repeating: "[", count: 100) + "{ *a0 : d }" + String(repeating: "]", count: 100), 32, 106),
        ])
    func multiplyingKey(_ last: String, _ line: Int, _ column: Int) {
        var yaml = "a0: &a0 [x, x, x]\n"
        for level in 1...30 { yaml += "a\(level): &a\(level) [*a\(level - 1), *a\(level - 1), *a\(level - 1)]\n" }
        let error = #expect(throws: YAMLTree.YAMLSyntaxError.self) { try tree(yaml + last) }
        expect(error?.valueError.message, equals: "a key must be no alias and contain none")
        expect(error?.position, equals: FilePosition(line: line, column: column))
    }

    @Test func asterisksThatAreNoAliasesAreKept() throws {
        let tree = try tree("a: /files/*\n\"*b\": '*x' # *y\nc*: |\n  *z\nd: [\"*\", e*]\n")
        expect(tree.order, equals: [["a"], ["*b"], ["c*"], ["d"], ["d", "0"], ["d", "1"]])
        expect(tree[["a"]]?.shape, equals: .scalar("/files/*"))
        expect(tree[["*b"]]?.shape, equals: .scalar("*x"))
        expect(tree[["c*"]]?.shape, equals: .scalar("*z\n"))
        let error = #expect(throws: YAMLTree.YAMLSyntaxError.self) {
            try YAMLTree(yaml: "\"*k\": 1\n\"*k\": 2\n") { _ in }
        }
        expect(error?.key, equals: "*k")
    }

    @Test(
        "A key that a mapping has twice is an error, with the position of the first of the two",
        arguments: [("a: { k: 1, b: 2, \"k\": 3 }\n", "k", 1, 6), ("é: 1\r\nx: 1\r\ny: 2\r\nx: 2\r\n", "x", 2, 1)])
    func keyTwice(_ yaml: String, _ key: String, _ line: Int, _ column: Int) {
        let error = #expect(throws: YAMLTree.YAMLSyntaxError.self) { try tree(yaml) }
        expect(error?.key, equals: key)
        expect(error?.position, equals: FilePosition(line: line, column: column))
    }
}

import Testing

@testable import CloakroomConfig

@Suite struct YAMLTreeTests {
    private func tree(_ yaml: String) throws -> YAMLTree {
        try YAMLTree(yaml: yaml) { Issue.record("\($0)") }
    }

    @Test func everyKeyKeepsItsPlace() throws {
        let tree = try tree("a:\n  - b: 1\n    c: [x, y]\nd: ~\n")
        #expect(
            tree.order == [
                ["a"], ["a", "0"], ["a", "0", "b"], ["a", "0", "c"], ["a", "0", "c", "0"], ["a", "0", "c", "1"], ["d"],
            ])
        #expect(tree[["a"]]?.shape == .list(count: 1))
        #expect(tree[["a", "0"]]?.shape == .section(["b", "c"]))
        #expect(tree[["a", "0", "b"]]?.key == FilePosition(line: 2, column: 5))
        #expect(tree[["a", "0", "b"]]?.value == FilePosition(line: 2, column: 8))
        #expect(tree[["a", "0", "c", "1"]]?.value == FilePosition(line: 3, column: 12))
        #expect(tree[["d"]]?.shape == .empty)
    }

    @Test func aValueInQuotesIsNeverEmpty() throws {
        let tree = try tree("a: \"\"\nb: '~'\nc: \"null\"\n")
        #expect(tree[["a"]]?.shape == .scalar(""))
        #expect(tree[["b"]]?.shape == .scalar("~"))
        #expect(tree[["c"]]?.shape == .scalar("null"))
    }

    @Test func aliasesStandForWhatTheyName() throws {
        let tree = try tree("a: &x { k: v }\nb: *x\n")
        #expect(tree[["b", "k"]]?.shape == .scalar("v"))
    }

    @Test func aliasesThatMultiplyAreRejected() {
        var yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
        for level in 1...9 {
            let item = "*a\(level - 1)"
            yaml += "a\(level): &a\(level) [" + Array(repeating: item, count: 10).joined(separator: ", ") + "]\n"
        }
        let error = #expect(throws: YAMLTree.YAMLSyntaxError.self) { try tree(yaml) }
        #expect(error?.valueError.message == "the file must have at most 200,000 entries")
    }

    @Test func keysThatStandTwiceAreAllToldAndTheLastCounts() throws {
        var told: [YAMLTree.YAMLSyntaxError] = []
        let tree = try YAMLTree(yaml: "é: { \"k\": 1, k: 2, k: 3 }\r\nx: 1\r\nx: 2\r\n") { told.append($0) }
        #expect(told.map(\.key) == ["é.k", "x"])
        #expect(told.map(\.position) == [FilePosition(line: 1, column: 20), FilePosition(line: 3, column: 1)])
        #expect(tree[["é", "k"]]?.shape == .scalar("3"))
        #expect(tree[["x"]]?.shape == .scalar("2"))
    }
}

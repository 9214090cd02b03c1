import TestSupport
import Testing

@testable import cloakroom

@Suite("Where a command reads its configuration")
struct ConfigPlaceTests {
    @Test("An argument names a file; a hyphen is standard input; both without a check whether there is a file")
    func named() throws {
        try expect(ConfigPlace.find("a.yaml", exists: { _ in false }), equals: .file("a.yaml"))
        try expect(ConfigPlace.find("-", exists: { _ in true }), equals: .standardInput)
        try expect(ConfigPlace.find("./-", exists: { _ in true }), equals: .file("./-"))
    }

    @Test(
        "Without an argument the first default file that exists is used",
        arguments: [
            (["./cloakroom.yaml", "/etc/cloakroom/cloakroom.yaml"], "./cloakroom.yaml"),
            (["/etc/cloakroom/cloakroom.yaml"], "/etc/cloakroom/cloakroom.yaml"),
        ])
    func defaults(_ existing: [String], _ expected: String) throws {
        try expect(ConfigPlace.find(nil, exists: existing.contains, isForeign: { _ in false }), equals: .file(expected))
    }

    @Test("A default file that another user could have written is an error; a named one is used")
    func foreign() throws {
        let error = #expect(throws: (any Error).self) {
            try ConfigPlace.find(nil, exists: { _ in true }, isForeign: { $0 == "./cloakroom.yaml" })
        }
        expect(
            error.map { "\($0)" },
            equals: "./cloakroom.yaml could have been written by another user"
                + " (write --config ./cloakroom.yaml if it is the one to use)")
        try expect(
            ConfigPlace.find("./cloakroom.yaml", exists: { _ in true }, isForeign: { _ in true }),
            equals: .file("./cloakroom.yaml"))
    }

    @Test("Without an argument and a default file, the error names both files, another way, and how to begin")
    func nothing() throws {
        let error = #expect(throws: (any Error).self) { try ConfigPlace.find(nil, exists: { _ in false }) }
        expect(
            error.map { "\($0)" },
            equals: "no configuration: neither ./cloakroom.yaml nor /etc/cloakroom/cloakroom.yaml exists"
                + " (write FILE or --config FILE; cloakroom init creates one,"
                + " and cloakroom-demo runs an example without one)")
    }
}

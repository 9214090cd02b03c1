import Testing

@testable import cloakroom

@Suite("Where a command reads its configuration")
struct ConfigPlaceTests {
    @Test("An argument names a file; a hyphen is standard input; both without a check whether there is a file")
    func named() throws {
        #expect(try ConfigPlace.find("a.yaml", exists: { _ in false }) == .file("a.yaml"))
        #expect(try ConfigPlace.find("-", exists: { _ in true }) == .standardInput)
        #expect(try ConfigPlace.find("./-", exists: { _ in true }) == .file("./-"))
    }

    @Test(
        "Without an argument the first default file that exists is used",
        arguments: [
            (["./cloakroom.yaml", "/etc/cloakroom/cloakroom.yaml"], "./cloakroom.yaml"),
            (["/etc/cloakroom/cloakroom.yaml"], "/etc/cloakroom/cloakroom.yaml"),
        ])
    func defaults(_ existing: [String], _ expected: String) throws {
        #expect(try ConfigPlace.find(nil, exists: existing.contains) == .file(expected))
    }

    @Test("Without an argument and a default file, the error names both files and how to name another one")
    func nothing() throws {
        let error = #expect(throws: (any Error).self) { try ConfigPlace.find(nil, exists: { _ in false }) }
        #expect(
            error.map { "\($0)" }
                == "no configuration: neither ./cloakroom.yaml nor /etc/cloakroom/cloakroom.yaml exists"
                + " (write FILE or --config FILE)")
    }
}

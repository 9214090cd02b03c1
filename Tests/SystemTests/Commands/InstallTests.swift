import Foundation
import TestSupport
import Testing

/// `deploy/install.sh`.
@Suite("Installing", .serialized, .timeLimit(.minutes(3)))
struct InstallTests {
    /// A release as `deploy/release.sh` unpacks: the script, `bin` and `share`.
    private func release(withManual hasManual: Bool) throws -> TemporaryDirectory {
        let directory = try TemporaryDirectory()
        let script = Executables.packageDirectory.appending(path: "deploy/install.sh")
        try FileManager.default.copyItem(at: script, to: directory.url.appending(path: "install.sh"))
        try FileManager.default.createDirectory(
            at: directory.url.appending(path: "bin"), withIntermediateDirectories: true)
        // The script follows the link.
        try FileManager.default.createSymbolicLink(
            at: directory.url.appending(path: "bin/cloakroom"), withDestinationURL: try Executables.cloakroom())
        if hasManual {
            try FileManager.default.createDirectory(
                at: directory.url.appending(path: "share/man/man1"), withIntermediateDirectories: true)
            try directory.write(".Dt CLOAKROOM 1\n", to: "share/man/man1/cloakroom.1")
            try directory.write(".Dt CLOAKROOM.SERVE 1\n", to: "share/man/man1/cloakroom.serve.1")
        }
        return directory
    }

    private func install(
        _ release: TemporaryDirectory, _ arguments: [String] = [], environment: [String: String]
    ) async throws -> ChildProgram.Outcome {
        try await ChildProgram.run(
            release.url.appending(path: "install.sh"), arguments, environment: environment)
    }

    private func files(below directory: TemporaryDirectory) throws -> Set<String> {
        let found = try FileManager.default.subpathsOfDirectory(atPath: directory.path)
        return Set(
            found.filter { path in
                var isDirectory: ObjCBool = false
                let exists = FileManager.default.fileExists(atPath: directory.path(of: path), isDirectory: &isDirectory)
                return exists && !isDirectory.boolValue
            })
    }

    private static let program: Set = [
        "bin/cloakroom", "share/bash-completion/completions/cloakroom", "share/zsh/site-functions/_cloakroom",
        "share/fish/vendor_completions.d/cloakroom.fish",
    ]
    private static let manual: Set = ["share/man/man1/cloakroom.1", "share/man/man1/cloakroom.serve.1"]

    @Test("Program, completions and manual pages are installed below PREFIX, run, and are removed again")
    func installed() async throws {
        let release = try release(withManual: true)
        let target = try TemporaryDirectory()
        // Files of others, and the operator's own, stay.
        for (folder, name) in [("bin", "bin/other"), ("share/man/man1", "share/man/man1/cloakroomctl.1")] {
            try FileManager.default.createDirectory(
                at: target.url.appending(path: folder), withIntermediateDirectories: true)
            try target.write("", to: name)
        }
        let before = try files(below: target)
        for _ in 0..<2 {
            let result = try await install(release, environment: ["PREFIX": target.path])
            expect(result.ending, equals: ChildProgram.Ending(status: 0), "\(result.errors)")
            expect(result.output.hasSuffix("2 manual pages\n"), "\(result.output)")
            try expect(files(below: target), equals: before.union(Self.program).union(Self.manual))
        }
        let version = try await ChildProgram.run(target.url.appending(path: "bin/cloakroom"), ["version"])
        expect(version.output.hasPrefix("cloakroom "))
        expect(target.text(of: "share/bash-completion/completions/cloakroom").hasPrefix("#!/bin/bash"))
        expect(target.text(of: "share/zsh/site-functions/_cloakroom").hasPrefix("#compdef cloakroom"))
        expect(target.text(of: "share/fish/vendor_completions.d/cloakroom.fish").contains("complete -c 'cloakroom'"))
        let removed = try await install(release, ["--uninstall"], environment: ["PREFIX": target.path])
        expect(removed.output, equals: "install: removed 6 files below \(target.path)\n", "\(removed.errors)")
        try expect(files(below: target), equals: before)
    }

    @Test("DESTDIR is in front of PREFIX; a release without manual pages is reported")
    func staged() async throws {
        let release = try release(withManual: false)
        let target = try TemporaryDirectory()
        let environment = ["PREFIX": "/usr", "DESTDIR": target.path]
        let result = try await install(release, environment: environment)
        expect(result.ending, equals: ChildProgram.Ending(status: 0), "\(result.errors)")
        expect(result.errors.contains("no manual pages"))
        try expect(files(below: target), equals: Set(Self.program.map { "usr/" + $0 }))
        let removed = try await install(release, ["--uninstall"], environment: environment)
        expect(removed.ending, equals: ChildProgram.Ending(status: 0))
        try expect(files(below: target), equals: [])
    }

    @Test("A wrong PREFIX, option or program is rejected, and nothing is installed")
    func rejected() async throws {
        let release = try release(withManual: true)
        let target = try TemporaryDirectory()
        for (arguments, prefix, message) in [
            ([], "usr", "PREFIX must be an absolute path, not usr"),
            (["--remove"], target.path, "unknown option --remove"),
            (["/nowhere/cloakroom"], target.path, "/nowhere/cloakroom is not a program"),
            (["/bin/false"], target.path, "does not generate completions"),
        ] {
            let result = try await install(release, arguments, environment: ["PREFIX": prefix])
            expect(result.ending.status != 0)
            expect(result.errors.contains(message), "\(result.errors)")
            try expect(files(below: target), equals: [])
        }
    }
}

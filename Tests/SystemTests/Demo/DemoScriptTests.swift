import Foundation
import TestSupport
import Testing

/// `deploy/demo.sh` with scripts in the place of the toolchain and the build.
@Suite("The script of the demo", .timeLimit(.minutes(1)))
struct DemoScriptTests {
    private static let scripts = [
        "bin/swift": "echo Swift version 6.3", "deploy/toolchain.sh": "", "deploy/packages.sh": "",
        "deploy/build.sh": """
        program=.build-release/bin/${1:-cloakroom}
        echo "${1:-cloakroom}" >>builds
        mkdir -p .build-release/bin
        printf '#!/bin/sh\\necho started\\n' >$program
        chmod +x $program
        echo "$PWD/$program"
        """,
    ]

    @Test("It builds only if a source, a script or a program has changed since the last build")
    func builds() async throws {
        let directory = try TemporaryDirectory()
        let files = FileManager.default
        for folder in ["bin", "deploy", "Sources"] {
            try files.createDirectory(atPath: directory.path(of: folder), withIntermediateDirectories: false)
        }
        for (name, script) in Self.scripts {
            try directory.write("#!/bin/sh\n\(script)\n", to: name)
            try files.setAttributes([.posixPermissions: 0o755], ofItemAtPath: directory.path(of: name))
        }
        for name in ["Package.swift", "Sources/a.swift", "Sources/b.swift", "deploy/a.py", "deploy/a.txt"] {
            try directory.write("", to: name)
        }
        let script = directory.url.appending(path: "deploy/demo.sh")
        try files.copyItem(at: Executables.packageDirectory.appending(path: "deploy/demo.sh"), to: script)

        /// The number of builds after a run.
        func run() async throws -> Int {
            let path = "\(directory.path(of: "bin")):\(Executables.searchPath)"
            let result = try await ChildProgram.run(script, [], environment: ["PATH": path])
            expect(result.output, equals: "started\n", "\(result.errors)")
            return directory.text(of: "builds").split(separator: "\n").count { $0 == "cloakroom-demo" }
        }
        try await expect(run(), equals: 1)
        try await expect(run(), equals: 1)
        try directory.write("// Changed.\n", to: "Sources/a.swift")
        try await expect(run(), equals: 2)
        try await expect(run(), equals: 2)
        try files.removeItem(atPath: directory.path(of: "Sources/b.swift"))
        try await expect(run(), equals: 3)
        try files.removeItem(atPath: directory.path(of: ".build-release/bin/cloakroom"))
        try await expect(run(), equals: 4)
        try directory.write("", to: "deploy/a.py")
        try await expect(run(), equals: 5)
        try await expect(run(), equals: 5)
    }
}

import Foundation

/// Where the programs are that the tests run.
enum Executables {
    struct NotFound: Error, CustomStringConvertible {
        let description: String
    }

    /// The gateway's own program. The build puts it next to the tests; how deep these are packed depends on the system.
    static func cloakroom() throws -> URL {
        let starts = [
            URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath(),
            URL(fileURLWithPath: CommandLine.arguments.first ?? "").resolvingSymlinksInPath(),
            Bundle.main.bundleURL,
        ]
        for start in starts {
            var directory = start
            for _ in 0..<4 {
                directory = directory.deletingLastPathComponent()
                let candidate = directory.appending(path: "cloakroom")
                var isDirectory: ObjCBool = false
                if FileManager.default.fileExists(atPath: candidate.path, isDirectory: &isDirectory),
                    !isDirectory.boolValue,
                    FileManager.default.isExecutableFile(atPath: candidate.path)
                {
                    return candidate
                }
            }
        }
        throw NotFound(description: "the program cloakroom is not next to the tests: \(starts.map(\.path))")
    }

    /// A program of the system.
    static func onPath(_ name: String, package: String) throws -> URL {
        for directory in searchPath.split(separator: ":") {
            let candidate = "\(directory)/\(name)"
            if FileManager.default.isExecutableFile(atPath: candidate) { return URL(fileURLWithPath: candidate) }
        }
        throw NotFound(description: "\(name) is not on PATH: install Debian's package \(package)")
    }

    /// A Python that knows a module; a system's own has the system's packages.
    static func python(with module: String) async throws -> URL {
        let own = try? onPath("python3", package: "python3")
        for candidate in [own, URL(fileURLWithPath: "/usr/bin/python3")].compactMap({ $0 }) {
            guard FileManager.default.isExecutableFile(atPath: candidate.path) else { continue }
            let result = try await ChildProgram.run(candidate, ["-c", "import \(module)"])
            if result.ending.status == 0 { return candidate }
        }
        throw NotFound(
            description: "no python3 knows \(module): pip install --requirement Tests/requirements.txt")
    }

    static var searchPath: String {
        ProcessInfo.processInfo.environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
    }

    /// The folder of the package, for the files that stand in it.
    static let packageDirectory = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
}

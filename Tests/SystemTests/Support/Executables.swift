import Foundation
import TestSupport

/// Finds the programs that the tests run.
enum Executables {
    struct NotFound: Error, CustomStringConvertible {
        let description: String
    }

    /// The gateway's executable.
    static func cloakroom() throws -> URL { try built("cloakroom") }

    /// The executable of the demo and the mocks.
    static func demo() throws -> URL { try built("cloakroom-demo") }

    /// An executable of the package. The build puts it next to the test bundle; how deep that is nested depends on the
    /// system.
    private static func built(_ name: String) throws -> URL {
        let starts = [
            URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath(),
            URL(fileURLWithPath: CommandLine.arguments.first ?? "").resolvingSymlinksInPath(),
            Bundle.main.bundleURL,
        ]
        for start in starts {
            var directory = start
            for _ in 0..<4 {
                directory = directory.deletingLastPathComponent()
                let candidate = directory.appending(path: name)
                var isDirectory: ObjCBool = false
                if FileManager.default.fileExists(atPath: candidate.path, isDirectory: &isDirectory),
                    !isDirectory.boolValue,
                    FileManager.default.isExecutableFile(atPath: candidate.path)
                {
                    return candidate
                }
            }
        }
        throw NotFound(description: "the program \(name) is not next to the tests: \(starts.map(\.path))")
    }

    /// A program on `PATH`.
    static func onPath(_ name: String, package: String) throws -> URL {
        for directory in searchPath.split(separator: ":") {
            let candidate = "\(directory)/\(name)"
            if FileManager.default.isExecutableFile(atPath: candidate) { return URL(fileURLWithPath: candidate) }
        }
        throw NotFound(description: "\(name) is not on PATH: install Debian's package \(package)")
    }

    /// A Python interpreter with a module; system packages are installed for the system's interpreter.
    static func python(with module: String) async throws -> URL {
        let own = try? onPath("python3", package: "python3")
        for candidate in [own, URL(fileURLWithPath: "/usr/bin/python3")].compactMap({ $0 }) {
            guard FileManager.default.isExecutableFile(atPath: candidate.path) else { continue }
            let result = try await ChildProgram.run(candidate, ["-c", "import \(module)"])
            if result.ending.status == 0 { return candidate }
        }
        throw NotFound(
            description: "no python3 has the module \(module): pip install --requirement Tests/requirements.txt")
    }

    static var searchPath: String {
        ProcessInfo.processInfo.environment["PATH"] ?? "/usr/local/bin:/usr/bin:/bin"
    }

    /// The root folder of the package, for its files.
    static let packageDirectory = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
}

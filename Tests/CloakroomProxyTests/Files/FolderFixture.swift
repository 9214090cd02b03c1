import CloakroomCore
import Foundation
import TestSupport

@testable import CloakroomProxy

/// A folder whose files a route serves.
struct FolderFixture: Sendable {
    let directory: TemporaryDirectory
    var path: String { directory.path + "/root" }

    /// - Parameter files: Contents by paths below the root.
    init(_ files: [String: String] = [:]) throws {
        directory = try TemporaryDirectory()
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        for (name, text) in files { try write(text, to: name) }
    }

    /// Writes a file anew, so that it has another identity.
    func write(_ text: String, to name: String) throws { try write(Data(text.utf8), to: name) }

    func write(_ data: Data, to name: String) throws {
        let url = URL(filePath: "\(path)/\(name)")
        try FileManager.default.createDirectory(
            at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try data.write(to: url, options: .atomic)
    }

    func link(_ name: String, to target: String) throws {
        try FileManager.default.createSymbolicLink(atPath: "\(path)/\(name)", withDestinationPath: target)
    }

    func configuration(_ change: (inout FilesConfiguration) -> Void = { _ in }) -> FilesConfiguration {
        var files = FilesConfiguration()
        files.root = path
        change(&files)
        return files
    }

    func scan(_ change: (inout FilesConfiguration) -> Void = { _ in }) throws -> FileTree {
        try FileScan.run(configuration(change))
    }

    /// A gateway that serves the folder at `/app/*`, with a fallback and immutable assets.
    func setup(
        requiresAuthorization: Bool = false, _ change: @escaping @Sendable (inout FilesConfiguration) -> Void = { _ in }
    ) -> GatewaySetup {
        let files = configuration {
            $0.fallback = "index.html"
            $0.immutable = [PathPattern(segments: [.literal("assets"), .wildcard])]
            change(&$0)
        }
        // The folder exists as long as the setup.
        let directory = directory
        return GatewaySetup.serving.configuration {
            _ = directory
            var route = Route(
                name: "app", methods: ["GET"], pattern: PathPattern(segments: [.literal("app"), .wildcard]),
                requiresAuthorization: requiresAuthorization)
            route.action = .files(files)
            $0.routes.append(route)
        }
    }
}

extension FileTree {
    subscript(path: String) -> FileEntry? { self[Array(path.utf8)] }
}

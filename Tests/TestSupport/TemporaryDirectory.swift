package import Foundation

/// A temporary folder with the lifetime of its owner.
package final class TemporaryDirectory: Sendable {
    /// The folder.
    package let url: URL

    /// Creates the folder.
    package init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "cloakroom-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: url)
    }

    /// The path of the folder, without a slash at the end.
    package var path: String { url.path }

    /// The path of a file in the folder.
    package func path(of name: String) -> String {
        url.appending(path: name).path
    }

    package func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: url.appending(path: name))
    }

    /// The contents of a file; empty if the file does not exist.
    package func text(of name: String) -> String {
        guard let data = try? Data(contentsOf: url.appending(path: name)) else { return "" }
        return String(decoding: data, as: UTF8.self)
    }
}

import Foundation

/// A temporary folder with the lifetime of its owner.
final class TemporaryDirectory: Sendable {
    let url: URL

    init() throws {
        url = FileManager.default.temporaryDirectory.appending(path: "cloakroom-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: url)
    }

    func path(of name: String) -> String {
        url.appending(path: name).path
    }

    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: url.appending(path: name))
    }

    /// The contents of a file; empty if the file does not exist.
    func text(of name: String) -> String {
        guard let data = try? Data(contentsOf: url.appending(path: name)) else { return "" }
        return String(decoding: data, as: UTF8.self)
    }
}

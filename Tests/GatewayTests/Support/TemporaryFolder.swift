import Foundation

/// A folder of its own for as long as a test needs it.
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

    /// What stands in a file; nothing if there is none.
    func text(of name: String) -> String {
        guard let data = try? Data(contentsOf: url.appending(path: name)) else { return "" }
        return String(decoding: data, as: UTF8.self)
    }
}

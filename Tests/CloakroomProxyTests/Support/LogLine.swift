import Foundation

struct LogLine {
    private let object: [String: Any]

    init?(_ line: Substring) {
        guard let object = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] else {
            return nil
        }
        self.object = object
    }

    /// A member as text, whatever its type.
    subscript(name: String) -> String? {
        object[name].map { "\($0)" }
    }
}

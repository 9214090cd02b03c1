import Foundation
import FuzzTargets

/// The stored inputs: examples of each format, and inputs that once violated an invariant.
enum Corpus {
    private static let directory = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("Corpus")

    static func directories() throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted()
    }

    static func inputs(of target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
        let directory = directory.appendingPathComponent(target.name)
        return try FileManager.default.contentsOfDirectory(atPath: directory.path).sorted().map { name in
            (name, Array(try Data(contentsOf: directory.appendingPathComponent(name))))
        }
    }
}

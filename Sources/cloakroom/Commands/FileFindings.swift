import CloakroomCore
import CloakroomProxy

/// What an operator should know about the files that routes serve.
enum FileFindings {
    static func findings(in configuration: GatewayConfiguration) -> [ConfigFinding] {
        configuration.routes.enumerated().flatMap { index, route in
            route.files.map { findings($0, at: ["routes", "\(index)", "files"]) } ?? []
        }
    }

    private static func findings(_ files: FilesConfiguration, at section: [String]) -> [ConfigFinding] {
        let tree: FileTree
        do throws(FileScanError) {
            tree = try FileScan.run(files)
        } catch {
            return [error.at(section).finding].compactMap(\.self)
        }
        var findings: [ConfigFinding] = []
        func add(_ key: [String], _ message: String, _ suggestion: String, isNote: Bool = false) {
            var finding = ConfigFinding(
                key: section + key, message: message, suggestion: suggestion, isWarning: true)
            finding.isNote = isNote
            findings.append(finding)
        }
        let paths = tree.paths
        if let fallback = files.fallback, tree.fallback == nil {
            let parts = fallback.split(separator: "/")
            let existing = parts.indices.dropFirst().lazy.map { parts[$0...].joined(separator: "/") }.first {
                tree[Array("/\($0)".utf8)] != nil
            }
            let remedy = existing.map { "write \($0)" } ?? "create it there"
            add(["fallback"], "\(fallback) is missing below root, \(files.root)", remedy)
        } else if tree[[UInt8(ascii: "/")]] == nil {
            add(["root"], "has no \(files.index)", "write its name to index", isNote: true)
        }
        for path in paths where secretEndings.contains(where: path.lowercased().hasSuffix) {
            add(["root"], "serves \(path), which may be a private key", "remove the file, or exclude its ending")
        }
        let maps = paths.count { $0.hasSuffix(".map") }
        if maps > 0 {
            add(["root"], "\(maps) source maps are served", "write names.exclude: [.map] to hide them", isNote: true)
        }
        let hashed = paths.filter { hasHash($0) && !files.isImmutable(Array($0.utf8)) }
        for folder in Set(hashed.map { $0.prefix(upTo: $0.lastIndex(of: "/") ?? $0.startIndex) }).sorted()
        where !folder.isEmpty && hashed.count(where: { $0.hasPrefix(folder + "/") }) > 2 {
            add(["root"], "\(folder)/ has hashed names", "write immutable: [\(folder)/*]", isNote: true)
        }
        return findings
    }

    private static let secretEndings = [".key", ".pem", ".p12", ".pfx", ".jks", ".kdbx"]

    /// Whether a name such as `index-B8fJx2Qa.js` contains the digest of its content: eight or more letters and digits,
    /// some of each, before the ending.
    private static func hasHash(_ path: String) -> Bool {
        let parts = path.split(separator: "/").last?.split { ".-_".contains($0) }.dropFirst().dropLast() ?? []
        return parts.contains { part in
            part.count >= 8 && part.contains(where: \.isNumber) && part.contains(where: \.isLetter)
        }
    }
}

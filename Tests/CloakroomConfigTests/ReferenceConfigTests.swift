import CloakroomConfig
import Foundation
import TestSupport
import Testing

@Suite struct ReferenceConfigTests {
    private let file = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appendingPathComponent("config/cloakroom.yaml").path

    @Test func theReferenceConfigurationIsGood() throws {
        let report = CommandReport.checkConfig(ConfigSources(file: file))
        expect(report.text, equals: "\(file): ok (3 routes, 1 upstream)\n")
        expect(report.exitCode, equals: 0)
    }

    @Test func everyKeyStandsInTheReferenceConfiguration() throws {
        let documented = Self.keys(in: try String(contentsOfFile: file, encoding: .utf8))
        let known = try loadConfig(ConfigSources(file: file)).knownKeys
            .filter { $0.last?.hasPrefix("#") == false }
            // Keys need to be documented in one item only.
            .filter { !($0.first == "routes" && $0.dropFirst().first != "0") }
            .map { $0.filter { $0 != "0" }.joined(separator: ".") }
            .filter { !$0.hasPrefix("routes.messages.") }
        #expect(known.count > 80)
        expect(Set(known).subtracting(documented), equals: [])
    }

    @Test func nothingStandsInTheReferenceConfigurationThatIsNoKey() throws {
        // Uncomments all keys except those that conflict with each other or require files.
        let excluded = [
            "tls:", "valueFile:", "name: __Host-", "token:", "tokenFile:", "secrets:", "secretsFile:", "passwordFile:",
            "sentinelPasswordFile:", "headersFile:", "caFile:", "targets:", "grpc:",
            // Only for calls with a body.
            "members:", "static:", "client:",
            "identities:", "require:", "when:", "redirect:", "redirectToHTTPS:", "stripPrefix:", "addPrefix:",
            "tokensFor:", "stream:", "logo:", "style:", "files:", "domain:", "prove:",
            "forwardAuth:", "assertion:",
        ]
        // Keys below an excluded section are excluded too.
        var section: Int?
        let yaml = try String(contentsOfFile: file, encoding: .utf8).split(
            separator: "\n", omittingEmptySubsequences: false
        ).map { line in
            let text = line.drop { $0 == " " }
            guard text.hasPrefix("#"), !text.hasPrefix("# "), text != "#" else { return String(line) }
            let indent = line.count - text.count
            if let section, indent > section { return String(line) }
            section = nil
            guard !excluded.contains(where: text.dropFirst().hasPrefix) else {
                if text.hasSuffix(":") { section = indent }
                return String(line)
            }
            return String(line.prefix { $0 == " " }) + text.dropFirst()
        }.joined(separator: "\n")
        try expect(ConfigFixture(yaml).valueErrors(), equals: [])
    }

    /// The keys in the text, commented or not, with their parents determined by indentation.
    private static func keys(in yaml: String) -> Set<String> {
        var stack: [(indent: Int, name: String)] = []
        var keys: Set<String> = []
        for line in yaml.split(separator: "\n") {
            var text = line.drop { $0 == " " }
            var indent = line.count - text.count
            if text.hasPrefix("#") {
                guard text.dropFirst().first?.isLetter == true else { continue }
                text = text.dropFirst()
            }
            if text.hasPrefix("- ") {
                text = text.dropFirst(2)
                indent += 2
            }
            guard let colon = text.firstIndex(of: ":") else { continue }
            stack.removeAll { $0.indent >= indent }
            stack.append((indent, String(text[..<colon])))
            keys.insert(stack.map(\.name).joined(separator: "."))
        }
        return keys
    }
}

import Foundation
import TestSupport

/// Every configuration key that holds a secret, from the reference of all keys: new keys are covered automatically.
struct SecretKey: Sendable {
    /// The path with dots: `upstreams.api.apiToken.value`.
    let name: String
    let variable: String
    let isList: Bool

    /// The secret keys in the reference that `cloakroom config-reference` prints.
    static func all(in reference: String) -> [SecretKey] {
        var keys: [SecretKey] = []
        for section in reference.components(separatedBy: "\n#### `").dropFirst() {
            let name = String(section.prefix { $0 != "`" })
            let lines = section.split(separator: "\n").map(String.init)
            guard let value = lines.first(where: { $0.hasPrefix("- Value: ") }), value.hasSuffix("; a secret"),
                let variables = lines.first(where: { $0.hasPrefix("- Variable") })
            else { continue }
            let quoted = variables.split(separator: "`").map(String.init)
            let variable = quoted.count > 1 ? quoted[1] : ""
            let entry = name.hasPrefix("identities.") ? "company" : "api"
            keys.append(
                SecretKey(
                    name: name.replacing(".NAME.", with: ".\(entry).").replacing(".N.", with: ".0."),
                    variable: variable.replacing("_NAME_", with: "_\(entry.uppercased())_").replacing(
                        "_N_", with: "_0_"),
                    isList: value.hasPrefix("- Value: list")))
        }
        return keys
    }
}

enum SecretSource: String, CaseIterable, Sendable {
    case flag, variable, file, yaml
}

/// A configuration whose secrets all come from one source. Each secret is a unique marker that can be searched for.
struct CanaryConfiguration {
    /// The common prefix of all markers.
    static let prefix = "canary-41"

    let directory: TemporaryDirectory
    let source: SecretSource
    let keys: [SecretKey]
    let arguments: [String]
    var environment: [String: String] = [:]
    let yaml: String

    func marker(_ name: String) -> String {
        "\(Self.prefix)-\(source)-\(name.replacing(".", with: "-"))-\(String(repeating: "0123456789", count: 3))"
    }

    init(_ source: SecretSource, keys: [SecretKey], upstream: String, apiToken: String? = nil) throws {
        directory = try TemporaryDirectory()
        self.source = source
        self.keys = keys
        var tree = Self.base(upstream)
        var (arguments, environment): ([String], [String: String]) = ([], [:])
        func text(_ key: SecretKey) -> String {
            let secret =
                "\(Self.prefix)-\(source)-\(key.name.replacing(".", with: "-"))-\(String(repeating: "0123456789", count: 3))"
            return key.name.hasSuffix("headers") ? "x-canary=\(secret)" : secret
        }
        for key in keys {
            let path = key.name.split(separator: ".").map(String.init)
            switch source {
            case .flag: arguments += ["--set", "\(key.name)=\(text(key))"]
            case .variable: environment[key.variable] = text(key)
            case .file:
                let file = key.name.replacing(".", with: "-")
                try directory.write(text(key) + "\n", to: file)
                tree = Self.setting(
                    path.dropLast() + [(path.last ?? "") + "File"], to: directory.path(of: file), in: tree)
            case .yaml: tree = Self.setting(path, to: key.isList ? [text(key)] : text(key), in: tree)
            }
        }
        // JSON is valid YAML.
        yaml = String(decoding: try JSONSerialization.data(withJSONObject: tree), as: UTF8.self).replacing(
            "\\/", with: "/")
        try directory.write(yaml, to: "cloakroom.yaml")
        self.arguments = ["--config", directory.path(of: "cloakroom.yaml")] + arguments
        self.environment = environment
    }

    private static func base(_ upstream: String) -> [String: Any] {
        func call(_ path: String) -> [String: Any] { ["path": path, "credentials": "oauth"] }
        return [
            "listeners": [["address": "127.0.0.1:0"]], "admin": ["address": "127.0.0.1:0"],
            "accounts": ["publicURL": "http://127.0.0.1:1"],
            // The provider does not exist either.
            "identities": ["company": ["issuer": "http://127.0.0.1:1", "client": ["id": "gateway"]]],
            // The API has no such path: revocations fail.
            "upstreams": [
                "api": [
                    "targets": [upstream], "client": ["id": "mock-client"], "signIn": call("/oauth/token"),
                    "refresh": call("/oauth/token"),
                    "revoke": call("/oauth/unknown"), "user": ["path": "/user"],
                ]
            ],
            "session": [
                "cookie": ["secure": false], "valkey": ["addresses": ["a:1"], "sentinelPrimary": "a"],
            ],
            // The collector does not exist: the exporter's failure messages are searched too.
            "tracing": [
                "exporter": "otlp", "ratio": 1,
                "otlp": ["endpoint": "http://127.0.0.1:1/v1/traces", "interval": "100ms"],
            ],
            "routes": [
                [
                    "name": "video", "methods": ["GET"], "path": "/videos/{id}", "upstream": "api",
                    "requiresAuthorization": true, "inject": ["apiToken", "bearer"],
                ],
                [
                    "name": "episodes", "methods": ["GET"], "path": "/episodes", "upstream": "api",
                    "requiresAuthorization": false, "inject": ["apiToken"],
                ],
            ],
        ]
    }

    private static func setting(_ path: some Collection<String>, to value: Any, in tree: [String: Any]) -> [String: Any]
    {
        guard let name = path.first else { return tree }
        var tree = tree
        let rest = path.dropFirst()
        tree[name] = rest.isEmpty ? value : setting(Array(rest), to: value, in: tree[name] as? [String: Any] ?? [:])
        return tree
    }
}

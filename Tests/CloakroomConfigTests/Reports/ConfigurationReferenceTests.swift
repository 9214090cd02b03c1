import CloakroomConfig
import Foundation
import TestSupport
import Testing

@Suite struct ConfigurationReferenceTests {
    private static let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private let reference: ConfigurationReference

    init() throws {
        reference = ConfigurationReference(
            comments: try String(
                contentsOf: Self.package.appending(path: "config/cloakroom.yaml"), encoding: .utf8))
    }

    @Test func theReferenceInTheDocumentationIsTheOneThatIsMadeNow() throws {
        let file = "Sources/cloakroom/Documentation.docc/ConfigurationReference.md"
        let committed = try String(contentsOf: Self.package.appending(path: file), encoding: .utf8)
        expect(
            committed, equals: reference.markdown,
            "the keys have changed: update the page with `swift run cloakroom config-reference > \(file)`")
    }

    @Test func everyKeyHasAMeaning() {
        expect(reference.uncommented, equals: [], "write a comment above each of them in config/cloakroom.yaml")
    }

    @Test func aKeyIsToldWithAllThatThereIsToSay() {
        for piece in [
            """

            #### `tracing.ratio`

            The fraction of sampled traces among those that start at the gateway, 0 to 1. Used by traceidratio only. If \
            the sampler is set by OTEL\\_TRACES\\_SAMPLER, the default is 1.

            - Value: decimal number, 0.0 to 1.0
            - Default: `0.01`
            - Reload: requires a restart
            - Variables: `CLOAKROOM_TRACING_RATIO`, `OTEL_TRACES_SAMPLER_ARG`

            """,
            """

            - Value: list, each method, upper case
            - Required within `routes.N`
            - Reload: applied
            - Variable: `CLOAKROOM_ROUTES_N_METHODS`

            """,
            """

            - Value: visible ASCII; a secret
            - Default: none
            - Reload: applied
            - Variable: `CLOAKROOM_UPSTREAMS_NAME_API_TOKEN_VALUE`

            """,
        ] {
            expect(reference.markdown.contains(piece), "\(piece)")
        }
    }

    @Test func everyKeyThatAConfigurationIsReadForIsInIt() throws {
        let known = try ConfigFixture().load().knownKeys.filter { key in
            key.last?.hasPrefix("#") == false && !key.contains("messages")
                && !key.starts(with: ["upstreams", "other"]) && !key.starts(with: ["routes", "1"])
        }
        #expect(known.count > 80)
        for key in known {
            let name = key.map { $0 == "0" ? "N" : $0 }.joined(separator: ".")
                .replacingOccurrences(of: "upstreams.api", with: "upstreams.NAME")
            expect(reference.markdown.contains("\n#### `\(name)`\n"), "\(name)")
        }
    }
}

import MockAPI
import NIOCore
import TestSupport
import Testing

/// The authentication of the client at the token endpoint.
@Suite struct ProviderClientTests {
    @Test("the secret is accepted in the header and in the form, but not in both")
    func secrets() async throws {
        try await MockProvider.withServer { provider in
            let visitor = ProviderVisitor(provider: provider)
            let secret = ["client_id": "cloakroom", "client_secret": "cloakroom-client-secret"]
            for (form, authorization, isAccepted) in [
                ([:], visitor.basic, true), (secret, nil, true), (secret, visitor.basic, false), ([:], nil, false),
                ([:], .basic("cloakroom", "x"), false),
                (["client_id": "cloakroom", "client_secret": "x"], nil, false),
            ] as [([String: String], String?, Bool)] {
                let all = ["grant_type": "refresh_token", "refresh_token": "x"].merging(form) { $1 }
                let response = try await visitor.post("/token", all, authorization: .some(authorization))
                expect(response.status, equals: (isAccepted ? 400 : 401), "\(form) \(authorization ?? "")")
                let code = isAccepted ? "invalid_grant" : "invalid_client"
                expect(String(buffer: response.body), equals: #"{"error":"\#(code)"}"#)
            }
            expect(provider.tokenRequests.count, equals: 2)
        }
    }
}

package import CloakroomCore

/// The gateway's own endpoints at several sites. Each site has those for what its users sign in with; all others do not
/// exist there.
package struct SiteEndpoints: AccountEndpointHandler {
    private let sites: [(accounts: AccountsConfiguration, endpoints: any AccountEndpointHandler)]

    /// - Parameter sites: In the order of ``GatewayConfiguration/sites``.
    package init(_ sites: [(accounts: AccountsConfiguration, endpoints: any AccountEndpointHandler)]) {
        self.sites = sites
    }

    /// Responds as the site of the request's host.
    package func respond(_ request: AccountRequest) async -> AccountResponse {
        guard sites.indices.contains(request.site), request.endpoint.isPresent(sites[request.site].accounts) else {
            return AccountResponse(Problem(.notFound))
        }
        return await sites[request.site].endpoints.respond(request)
    }
}

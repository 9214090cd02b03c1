import CloakroomCore

extension CommandReport {
    /// `routes`: the route table in file order, and the sign-in endpoints.
    public static func routes(_ sources: ConfigSources) -> CommandReport {
        on(sources) { config in
            let configuration = config.configuration
            var rows = [["NAME", "METHODS", "PATH", "UPSTREAM", "AUTHORIZATION", "INJECTS"]]
            rows += configuration.routes.map { route in
                [
                    route.name, route.methods.joined(separator: ","), route.pattern.description,
                    configuration.upstreams[route.upstream].name, route.requiresAuthorization ? "required" : "public",
                    Self.names(of: route.inject),
                ]
            }
            if configuration.accounts.upstream != nil {
                let prefix = configuration.accounts.prefix
                rows.append(["(local)", "POST,GET,DELETE", prefix, "-", "-", "-"])
                rows.append(["(local)", "GET,DELETE", prefix + "/sessions", "-", "-", "-"])
                rows.append(["(local)", "DELETE", prefix + "/sessions/{id}", "-", "-", "-"])
            }
            return CommandReport(lines: Table.lines(rows))
        }
    }

    private static func names(of inject: Injection) -> String {
        var names: [String] = []
        if inject.contains(.apiToken) { names.append("apiToken") }
        if inject.contains(.bearer) { names.append("bearer") }
        return names.isEmpty ? "-" : names.joined(separator: ",")
    }
}

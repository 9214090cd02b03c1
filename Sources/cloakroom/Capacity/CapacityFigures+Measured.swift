extension CapacityFigures {
    /// The figures of `Benchmarks/capacity.json`: Valkey 9.1, on a machine with two cores that other programs used too.
    static let measured = CapacityFigures(
        // Benchmarks/capacity.py costs
        request: OperationCost(
            gatewayMicroseconds: 25.8, serverMicroseconds: 0, bytesToServer: 0, bytesFromServer: 0),
        lookUp: OperationCost(
            gatewayMicroseconds: 82.0, serverMicroseconds: 12.5, bytesToServer: 60, bytesFromServer: 922.4),
        providerLookUp: OperationCost(
            gatewayMicroseconds: 90, serverMicroseconds: 13, bytesToServer: 60, bytesFromServer: 1_800),
        touch: OperationCost(
            gatewayMicroseconds: 26.1, serverMicroseconds: 14.1, bytesToServer: 155.8, bytesFromServer: 4.8),
        refresh: OperationCost(
            gatewayMicroseconds: 500, serverMicroseconds: 120, bytesToServer: 1_600, bytesFromServer: 100),
        signIn: OperationCost(
            gatewayMicroseconds: 786.7, serverMicroseconds: 130, bytesToServer: 1_624.4, bytesFromServer: 1_911.3),
        signOut: OperationCost(
            gatewayMicroseconds: 453.4, serverMicroseconds: 90.8, bytesToServer: 462, bytesFromServer: 1_854.2),
        login: OperationCost(
            gatewayMicroseconds: 4_609, serverMicroseconds: 1_011.8, bytesToServer: 2_608.7, bytesFromServer: 3_614.3),
        gatewayBytes: 25_000_000, gatewayBytesPerPasswordSession: 935, gatewayBytesPerProviderSession: 3_000,
        serverBytes: 10_000_000,
        // Benchmarks/capacity.py memory
        serverBytesPerPasswordSession: 1_692, serverBytesPerProviderSession: 2_600, serverBytesPerTrackedSession: 70,
        serverBytesPerFurtherGateway: 10)
}

<#
.SYNOPSIS
  Lets one VIL Bridge reach the mocap program of this computer through Windows' firewall.
.PARAMETER Bridge
  Address of the bridge's computer; nobody else is let in.
.PARAMETER System
  Motive, Vicon, Qualisys or VRPN.
.PARAMETER Remove
  Take the rules away again.
#>
[CmdletBinding()]
param(
    [Parameter(Mandatory = $true)][System.Net.IPAddress]$Bridge,
    [Parameter(Mandatory = $true)][ValidateSet('Motive', 'Vicon', 'Qualisys', 'VRPN')][string]$System,
    [switch]$Remove
)
Set-StrictMode -Version Latest
$ErrorActionPreference = 'Stop'

$ports = @{
    Motive   = @(@{ Protocol = 'UDP'; LocalPort = @('1510', '1511') })
    Vicon    = @(@{ Protocol = 'TCP'; LocalPort = @('801') })
    Qualisys = @(@{ Protocol = 'TCP'; LocalPort = @('22222-22226') }, @{ Protocol = 'UDP'; LocalPort = @('22222-22226') })
    VRPN     = @(@{ Protocol = 'TCP'; LocalPort = @('3883') }, @{ Protocol = 'UDP'; LocalPort = @('3883') })
}

foreach ($port in $ports[$System]) {
    $name = "VIL Bridge: $System $($port.Protocol) from $Bridge"
    Get-NetFirewallRule -DisplayName $name -ErrorAction SilentlyContinue | Remove-NetFirewallRule
    if (-not $Remove) {
        New-NetFirewallRule -DisplayName $name -Direction Inbound -Action Allow -Profile Private `
            -RemoteAddress $Bridge.ToString() @port | Out-Null
        Write-Output "allowed: $name, ports $($port.LocalPort -join ', ')"
    }
    else {
        Write-Output "removed: $name"
    }
}

Get-NetConnectionProfile | Where-Object { $_.NetworkCategory -eq 'Public' } | ForEach-Object {
    Write-Warning "the network '$($_.Name)' on $($_.InterfaceAlias) is Public: these rules hold for Private ones only"
}
